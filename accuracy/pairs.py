"""A pairwise-covering design: few rows in which every possible pair of values occurs.

Greedy (AETG, Cohen et al. 1997): each row starts from pairs that are still missing and takes, of
a number of completions, the one that covers most. Deterministic for a seed. Knows nothing of
plans: what a valid row is, and which of its values count, is asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

Row = Mapping[str, object]
"""Factor → value."""
Pair = frozenset[tuple[str, object]]

Judge = Callable[[Row], tuple[Row, Iterable[str]]]
"""What of a row counts (nothing when it is impossible), and which factors to draw again."""


def pairs_of(row: Row) -> set[Pair]:
    """Every pair of values of a row."""
    return {frozenset(pair) for pair in combinations(row.items(), 2)}


def all_pairs(factors: Mapping[str, Sequence[object]]) -> set[Pair]:
    """Every pair of values of two different factors."""
    return {
        frozenset(((one, a), (other, b)))
        for one, other in combinations(factors, 2)
        for a in factors[one]
        for b in factors[other]
    }


class Design:
    """Rows that cover the pairs of ``factors``.

    ``impossible`` are the pairs for which no valid row was found in ``tries`` draws.
    """

    def __init__(
        self,
        factors: Mapping[str, Sequence[object]],
        judge: Judge,
        *,
        seed: int = 0,
        tries: int = 60,
        candidates: int = 8,
    ) -> None:
        self.factors, self.judge = factors, judge
        self.random = random.Random(seed)
        self.tries, self.candidates = tries, candidates
        self.rows: list[Row] = []
        self.impossible: set[Pair] = set()

    def cover(self, rows: int = 1_000_000) -> None:
        """Add rows until every possible pair occurs in one more row than before.

        Or until there are ``rows`` of them, once every pair has occurred.
        """
        first = not self.rows
        missing = all_pairs(self.factors) - self.impossible
        # Sets of strings are in another order in every process; draws must not depend on it.
        order = sorted(missing, key=_key)
        self.random.shuffle(order)
        for pair in order:
            if not first and len(self.rows) >= rows:
                return
            if pair not in missing:
                continue
            found = self._best(pair, missing)
            if found is None:
                self.impossible.add(pair)
                missing.discard(pair)
                continue
            row, covered = found
            self.rows.append(row)
            missing -= covered

    def _best(self, pair: Pair, missing: set[Pair]) -> tuple[Row, set[Pair]] | None:
        best: tuple[Row, set[Pair]] | None = None
        tries = self.tries
        for _ in range(self.candidates):
            found, tries = self._complete(dict(pair), tries)
            if found is None:
                break
            row, counted = found
            covered = pairs_of(counted) & missing
            if best is None or len(covered) > len(best[1]):
                best = row, covered
        return best

    def _complete(
        self, pinned: dict[str, object], tries: int
    ) -> tuple[tuple[Row, Row] | None, int]:
        """A valid row with the pinned values that count, and the tries that are left."""
        row = {name: self.random.choice(values) for name, values in self.factors.items()} | pinned
        while tries > 0:
            tries -= 1
            counted, blamed = self.judge(row)
            if all(counted.get(name) == value for name, value in pinned.items()):
                return (row, counted), tries
            # What is to blame is drawn again; a value that is pinned stays, so all others are.
            names = [name for name in sorted(blamed) if name not in pinned]
            for name in names or [name for name in self.factors if name not in pinned]:
                row[name] = self.random.choice(self.factors[name])
        return None, 0


def _key(pair: Pair) -> list[tuple[str, str]]:
    return sorted((name, repr(value)) for name, value in pair)
