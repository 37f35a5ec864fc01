"""How bytes of measured layers grow with the length of a row, and up to which length that holds.

A law is a polynomial. Its factors are solved from a few measured lengths; other measured lengths
are held out, and the law is trusted as far as it predicts them. Imports
:mod:`planner.formulas.polynomial` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from planner.formulas.polynomial import padded
from planner.numeric import Num, minimum

PLAIN, CHUNK, STEP, WINDOW = "tokens", "chunk", "step", "window"
LAW, PROOF = "law", "proof"
"""Under which keys a measured setting keeps its law and its proof."""
WITHIN = 0.02
"""Largest relative error of a law at a held-out length."""
LEAST = 0.1
"""Errors are relative to a figure, or to this share of the largest figure if that is more."""
FURTHER = 2
"""A law that no held-out length contradicts is trusted to this many times the longest of them."""


class Law(NamedTuple):
    """Which lengths of a row its bytes are a polynomial of, each up to its square.

    ``tokens``: the row's tokens. ``chunk``: the row's tokens, and its tokens padded to whole chunks
    of ``size``. ``step``: the padded tokens alone. ``window``: the row's tokens, and the part of
    them that is within a window of ``size``.
    """

    form: str = PLAIN
    size: int = 1

    def second(self, tokens: Num) -> Num:
        """The row's second length: padded to whole chunks, or cut to the window.

        The later six factors of a polynomial are for it.
        """
        return (minimum if self.form == WINDOW else padded)(tokens, self.size)

    def solved_from(self, lengths: Sequence[int]) -> list[int]:
        """The lengths to measure: one for each factor to solve.

        A polynomial of one length has three factors; a second length adds two, since both share
        the constant. Those two lengths have to tell the second length from the first: they are no
        whole chunks, or they lie inside the window and the other three beyond it.
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
    """Up to which held-out length a law predicted the bytes."""

    held: int
    """The longest length with no error above the limit at it or below it; 0 for none."""
    failed: int
    """The shortest length with an error above the limit; 0 for none."""

    @property
    def longest(self) -> int:
        """The longest row that the law answers for, in tokens."""
        return self.held if self.failed else FURTHER * self.held


def error_of(predicted: Sequence[float], seen: Sequence[float]) -> float:
    """The largest relative error among the figures of one length (see :data:`LEAST`)."""
    least = LEAST * max(seen)
    return max(abs(a - b) / max(b, least) for a, b in zip(predicted, seen, strict=True))


def proof_of(errors: Mapping[int, float]) -> Proof:
    """The proof, from the error at each held-out length."""
    failed = min((length for length, error in errors.items() if error > WITHIN), default=0)
    held = (length for length in errors if not failed or length < failed)
    return Proof(max(held, default=0), failed)


Solved = TypeVar("Solved")


def choose(tries: Iterable[tuple[Solved, Mapping[int, float]]]) -> tuple[Solved, Proof]:
    """The first solved law that holds at every held-out length; else the one that holds longest.

    ``tries`` gives, law by law, what was solved and its error at each held-out length. Once a law
    holds everywhere, no further one is solved.
    """
    found = []
    for solved, errors in tries:
        found.append((solved, proof_of(errors)))
        if not found[-1][1].failed:
            break
    return max(found, key=lambda one: one[1].longest)
