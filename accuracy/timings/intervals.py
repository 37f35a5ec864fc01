"""Intervals by phase and regime, from errors: ``planner/catalog/time_errors.json``.

A regime's interval goes from the least to the most of its projects' own 5th to 95th percentile of
published ÷ predicted: a project with fifty rows counts as much as one with five, and one whose
runs are unlike the others widens it. Regimes with fewer than LEAST rows, or of one project, are
left to the ones around them. An interval always has the estimate itself in it. Coverage is scored
with a row's own project left out. Once the held half has been scored, its figures widen or narrow
what is shown, too; what the seen half's intervals covered of it is scored before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accuracy.timings import report
from accuracy.timings.compare import PHASES, Figure, results
from planner.timing import error
from planner.timing.error import Cell, Regime

FILE = Path(error.__file__).parents[1] / "catalog" / "time_errors.json"
LEAST, PROJECTS = 4, 2
"""Rows and projects that a regime needs for an interval of its own."""


def regimes(figure: Figure) -> Iterator[Regime]:
    """Every regime that a figure belongs to, narrowest first.

    Whoever asks without lengths is told of runs with and without.
    """
    own = Regime(figure.phase, figure.mixture, figure.tables, figure.lengths)
    either = (one for one in error.wider(own._replace(lengths=False)) if one.lengths is None)
    return iter(dict.fromkeys((*error.wider(own), *either)))


def cells(figures: Sequence[Figure]) -> dict[Regime, Cell]:
    """The interval of each regime that has enough figures; the last one has them all.

    One that lies around others is at least as wide as they are.
    """
    found: dict[Regime, list[Figure]] = {}
    for figure in figures:
        for regime in regimes(figure):
            found.setdefault(regime, []).append(figure)
    own = {
        regime: _cell(rows)
        for regime, rows in found.items()
        if regime == Regime(None) or _enough(rows)
    }
    widened = dict(own)
    for regime, cell in own.items():
        for around in (one for one in error.wider(regime) if one in own):
            low, high = min(widened[around].low, cell.low), max(widened[around].high, cell.high)
            widened[around] = widened[around]._replace(low=low, high=high)
    return widened


def _enough(rows: Sequence[Figure]) -> bool:
    return len(rows) >= LEAST and len({row.project for row in rows}) >= PROJECTS


def _cell(rows: Sequence[Figure]) -> Cell:
    by_project: dict[str, list[float]] = {}
    for row in rows:
        by_project.setdefault(row.project, []).append(row.published / row.predicted)
    ends = [np.percentile(ratios, [5, 95]) for ratios in by_project.values()]
    return Cell(
        low=round(float(min(1.0, *(low for low, _ in ends))), 3),
        high=round(float(max(1.0, *(high for _, high in ends))), 3),
        rows=len(rows),
        projects=len(by_project),
    )


def coverage(figures: Sequence[Figure]) -> tuple[int, int]:
    """Figures inside the interval that other projects' figures give them, and figures scored."""
    inside = 0
    for project in {figure.project for figure in figures}:
        known = cells([other for other in figures if other.project != project])
        own = [figure for figure in figures if figure.project == project]
        inside += covered(own, known)[0]
    return inside, len(figures)


def covered(figures: Iterable[Figure], known: dict[Regime, Cell]) -> tuple[int, int]:
    """The same for figures of projects that had no part in the intervals."""
    hits = [
        known[next(regime for regime in regimes(figure) if regime in known)]
        .has(figure.published / figure.predicted)
        for figure in figures
    ]
    return sum(hits), len(hits)


def usable(figures: Iterable[Figure]) -> list[Figure]:
    """Those that intervals are made of: seconds, of rows that are not of low confidence."""
    return [one for one in figures if one.confidence != "low" and one.phase in PHASES]


def write() -> str:
    """Write the intervals of every half that was scored; the sentence says what they cover."""
    seen, held = usable(results("seen")[0]), usable(report.held())
    figures = [*seen, *held]
    told: dict[str, Any] = {
        "about": "Published over predicted seconds, 5th to 95th percentile of the widest project, "
        "by phase and regime (null is either); written by python -m accuracy.timings --intervals, "
        "rows of low confidence left out.",
        "regimes": [
            {**regime._asdict(), **cell._asdict()} for regime, cell in cells(figures).items()
        ],
    }
    FILE.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    return f"wrote {FILE.name}: {len(told['regimes'])} regimes. {words(seen, held)}"


def words(seen: Sequence[Figure], held: Sequence[Figure]) -> str:
    """What intervals cover of figures that had no part in them."""
    inside, scored = coverage(seen)
    found = (
        f"Of the figures that we looked at, {inside} of {scored} lie in the interval that the "
        "other projects give."
    )
    if held:
        inside, scored = covered(held, cells(seen))
        found += (
            f" Of the held-out figures, {inside} of {scored} lie in the intervals taken from the "
            "figures that we looked at."
        )
    return found
