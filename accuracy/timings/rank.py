"""Whether a source's alternatives stand in the published order: rank correlations.

Alternatives are rows of one project, model and phase; they are compared by GPU-seconds a token
where the tokens of a step are known, which is what a choice among them is about, else by seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from accuracy.timings.compare import PHASES, Figure

LEAST = 3
"""Rows below which an order says nothing."""


class Ranked(NamedTuple):
    """One set of alternatives."""

    alternatives: str
    phase: str
    rows: int
    spearman: float
    kendall: float


def ranked(figures: Iterable[Figure]) -> tuple[Ranked, ...]:
    """Every set of at least three alternatives, the largest first."""
    sets: dict[tuple[str, str], list[Figure]] = {}
    for figure in (one for one in figures if one.phase in PHASES):
        sets.setdefault((figure.alternatives, figure.phase), []).append(figure)
    found = (
        Ranked(
            name,
            phase,
            len(rows),
            spearman([_cost(row, row.published) for row in rows], _costs(rows)),
            kendall([_cost(row, row.published) for row in rows], _costs(rows)),
        )
        for (name, phase), rows in sets.items()
        if len(rows) >= LEAST
    )
    return tuple(sorted(found, key=lambda one: -one.rows))


def _costs(rows: Sequence[Figure]) -> list[float]:
    return [_cost(row, row.predicted) for row in rows]


def _cost(figure: Figure, seconds: float) -> float:
    return seconds * figure.gpus / figure.tokens if figure.tokens else seconds


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Correlation of ranks, ties at their mean rank; nan where one side is all ties."""
    first, second = _ranks(np.asarray(left)), _ranks(np.asarray(right))
    if not np.ptp(first) or not np.ptp(second):
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.asarray((values[:, None] > values).sum(1) + (values[:, None] == values).sum(1) / 2)


def kendall(left: Sequence[float], right: Sequence[float]) -> float:
    """Kendall's tau-b: pairs in the same order less those in the other, ties left out."""
    signs = [np.sign(np.subtract.outer(side, side)) for side in (left, right)]
    untied = float(np.sqrt((signs[0] != 0).sum() * (signs[1] != 0).sum()))
    return float((signs[0] * signs[1]).sum() / untied) if untied else float("nan")
