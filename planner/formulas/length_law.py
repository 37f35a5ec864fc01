"""By which law bytes of measured layers grow with a row's length, and up to which length it holds.

A law is solved from as many sizes as it has factors, and believed as far as it meets lengths that
it was not solved from. Imports :mod:`planner.formulas.polynomial` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from planner.formulas.polynomial import padded
from planner.numeric import Num, minimum

PLAIN, CHUNK, STEP, WINDOW = "tokens", "chunk", "step", "window"
LAW, PROOF = "law", "proof"
"""What a measured setting keeps of them."""
WITHIN = 0.02
"""Share of a held-out length's bytes that a law may miss."""
LEAST = 0.1
"""Figures below this share of the largest are as far off as if they were that."""
FURTHER = 2
"""Rows are answered up to so many times the longest held-out length, where no law failed."""


class Law(NamedTuple):
    """A polynomial of the tokens (affine where it has no squares), or one of another length too.

    ``chunk``: of the tokens that a row has when filled up to whole chunks of ``size``; ``step``:
    of those alone; ``window``: of at most ``size`` of its tokens.
    """

    form: str = PLAIN
    size: int = 1

    def second(self, tokens: Num) -> Num:
        """The other length, of which the later half of a polynomial's factors are."""
        return (minimum if self.form == WINDOW else padded)(tokens, self.size)

    def solved_from(self, lengths: Sequence[int]) -> list[int]:
        """The lengths it is solved from: three, and where it has another length two more.

        Shorter than whole chunks, or than the window, which the three then lie beyond.
        """
        less = self.size // 4
        if self.form == WINDOW:
            beyond = -(-self.size // lengths[0])
            return [*(beyond * length for length in lengths), less, 2 * less]
        others = (lengths[0], lengths[-1]) if self.form == CHUNK else ()
        return [*lengths, *(each - less for each in others)]


def law_of(setting: Mapping[str, Any]) -> Law:
    """The law of a measured setting."""
    return Law(*setting.get(LAW, ()))


class Proof(NamedTuple):
    """What held-out lengths say of a law."""

    held: int
    """The longest up to which it met all; 0 where it met none."""
    failed: int
    """The shortest that it missed; 0 where it missed none."""

    @property
    def longest(self) -> int:
        """The longest row that is answered by it, in tokens."""
        return self.held if self.failed else FURTHER * self.held


def error_of(predicted: Sequence[float], seen: Sequence[float]) -> float:
    """The largest share by which figures of one length are missed; of small ones, what matters."""
    least = LEAST * max(seen)
    return max(abs(a - b) / max(b, least) for a, b in zip(predicted, seen, strict=True))


def proof_of(errors: Mapping[int, float]) -> Proof:
    """Of the share missed at each held-out length."""
    failed = min((length for length, error in errors.items() if error > WITHIN), default=0)
    held = (length for length in errors if not failed or length < failed)
    return Proof(max(held, default=0), failed)


Solved = TypeVar("Solved")


def choose(tries: Iterable[tuple[Solved, Mapping[int, float]]]) -> tuple[Solved, Proof]:
    """The first that meets every held-out length; else the one that answers for the longest.

    ``tries`` are what laws were solved to, and the share each misses at every held-out length;
    those behind the first that meets all are not asked for.
    """
    found = []
    for solved, errors in tries:
        found.append((solved, proof_of(errors)))
        if not found[-1][1].failed:
            break
    return max(found, key=lambda one: one[1].longest)
