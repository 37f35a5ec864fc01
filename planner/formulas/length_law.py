"""By which law bytes of measured layers grow with a row's length, and up to which length it holds.

A law is solved from as many sizes as it has factors. It is believed as far as it meets lengths
that it was not solved from. Imports :mod:`planner.formulas.polynomial` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from planner.formulas.polynomial import (
    Polynomial,
    padded,
    through,
    through_chunks,
    through_window,
)
from planner.numeric import Num, minimum

PLAIN, CHUNK, WINDOW = "plain", "chunk", "window"
LONGEST, PROVED, FAILED = "longest", "proved", "failed"
WITHIN = 0.02
"""Share of a held-out length's bytes that a law may miss."""
LEAST = 0.1
"""Figures below this share of the largest are as far off as if they were that."""
FURTHER = 2
"""Rows are answered up to so many times the longest held-out length, where no law failed."""


class Law(NamedTuple):
    """A polynomial of the tokens (affine where it has no squares), or one of another length too.

    ``chunk``: of the tokens that a row has when filled up to whole chunks of ``size``; ``window``:
    of at most ``size`` of its tokens.
    """

    form: str = PLAIN
    size: int = 1

    def second(self, tokens: Num) -> Num:
        """The other length, of which the later half of a polynomial's factors are."""
        if self.form == WINDOW:
            return minimum(tokens, self.size)
        return padded(tokens, self.size)

    def solved_from(self, lengths: Sequence[int]) -> list[int]:
        """The lengths it is solved from: three, and where it has another length three more."""
        if self.form == WINDOW:
            return [*lengths, *(self.size // part for part in (4, 2, 1))]
        return [*lengths, *(length - self._less for length in lengths if self._less)]

    @property
    def _less(self) -> int:
        return self.size // 4 if self.form == CHUNK else 0

    def through(
        self, lengths: Sequence[int], two_rows: Sequence[int], three_rows: Sequence[int]
    ) -> Polynomial:
        """The polynomial of values at :meth:`solved_from`, of two rows and of three."""
        if self.form == WINDOW:
            return through_window(self.solved_from(lengths), two_rows, three_rows)
        if self._less:
            return through_chunks(lengths, self._less, two_rows, three_rows)
        return through(lengths, two_rows, three_rows)


def law_of(setting: Mapping[str, object]) -> Law:
    """The law of a measured setting."""
    return next((Law(form, int(str(setting[form]))) for form in (CHUNK, WINDOW) if form in setting),
                Law())  # fmt: skip


class Proof(NamedTuple):
    """What held-out lengths say of a law."""

    held: int
    """The longest up to which it met all; 0 where it met none."""
    failed: int
    """The shortest that it missed; 0 where it missed none."""
    error: float
    """The largest share by which it missed one."""

    @property
    def longest(self) -> int:
        """The longest row that is answered by it, in tokens."""
        return self.held if self.failed else FURTHER * self.held

    @property
    def kept(self) -> dict[str, int]:
        """As a measured setting keeps it."""
        return {LONGEST: self.longest, PROVED: self.held, FAILED: self.failed}


def error_of(predicted: Sequence[float], seen: Sequence[float]) -> float:
    """The largest share by which figures of one length are missed; of small ones, what matters."""
    least = LEAST * max(seen)
    return max(abs(a - b) / max(b, least) for a, b in zip(predicted, seen, strict=True))


def proof_of(errors: Mapping[int, float]) -> Proof:
    """Of the share missed at each held-out length."""
    failed = min((length for length, error in errors.items() if error > WITHIN), default=0)
    held = [length for length in errors if not failed or length < failed]
    return Proof(max(held, default=0), failed, max(errors.values(), default=0.0))


Solved = TypeVar("Solved")


def choose(tries: Iterable[tuple[Solved, Mapping[int, float]]]) -> tuple[Solved, Proof]:
    """The first that meets every held-out length; else what meets the longest, by the least.

    ``tries`` are what laws were solved to, and the share each misses at every held-out length;
    those behind the first that meets all are not asked for.
    """
    found = []
    for solved, errors in tries:
        proof = proof_of(errors)
        if not proof.failed:
            return solved, proof
        found.append((solved, proof))
    return max(found, key=lambda one: (one[1].held, -one[1].error))
