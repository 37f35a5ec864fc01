"""Combinations of choices judged: the columns that a search compares, row by row.

The one place where a search asks for estimates by the thousand. Imports no pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from planner.plan import Plan
from planner.speeds import Speeds
from planner.sweeps.table import rows as swept

Array = np.ndarray[Any, Any]
Combinations = Sequence[Mapping[str, Any]]
Arrays = Mapping[str, Sequence[Any]]
PHASE = "phase: "
"""Begins the name of a column with a phase's device bytes."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Valid plans, a row each. Bytes are of one GPU, seconds of a step, dollars of the run."""

    combination: Array
    """Which of the combinations it is of."""
    place: Array
    """Where in their arrays it stands, flat."""
    code: Array
    """Of the verdict: 0 fits, 1 tight, 2 out of memory."""
    device_bytes: Array
    high_bytes: Array
    budget_bytes: Array
    host_bytes: Array
    seconds: Array
    low_seconds: Array
    high_seconds: Array
    between_seconds: Array
    """Of the run, before and between its steps: a cached reference, checkpoints, validations."""
    low_between_seconds: Array
    high_between_seconds: Array
    usd: Array
    low_usd: Array
    high_usd: Array
    phase_bytes: Array
    """Device bytes of each of the phases, a column each; 0 where a plan has no such phase."""
    phases: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.combination)

    def at(self, which: Array) -> Rows:
        """The rows of a mask or of numbers."""
        return made((getattr(self, name)[which] for name in FIGURES), self.phases)


FIGURES = tuple(one.name for one in fields(Rows) if one.name != "phases")


def made(figures: Iterable[Array], phases: tuple[str, ...]) -> Rows:
    """Rows of these figures, in the order of :data:`FIGURES`."""
    named: dict[str, Any] = dict(zip(FIGURES, figures, strict=True))
    return Rows(**named, phases=phases)


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of several calls, in their order."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.phases))
    alike = [part if part.phases == names else _with_phases(part, names) for part in parts]
    return made(
        (np.concatenate([getattr(part, name) for part in alike]) for name in FIGURES), names
    )


def _with_phases(rows: Rows, names: tuple[str, ...]) -> Rows:
    sizes = np.zeros((len(rows), len(names)), dtype=np.int64)
    sizes[:, [names.index(name) for name in rows.phases]] = rows.phase_bytes
    return replace(rows, phase_bytes=sizes, phases=names)


Judge = Callable[[Plan, Combinations, Arrays, Speeds | None], Rows]
"""The valid rows of combinations, numbered as they were given: judged here, or by others."""


def rows_of(
    plan: Plan, combinations: Combinations, arrays: Arrays, speeds: Speeds | None
) -> Rows:
    """The valid rows of the combinations, judged in this process."""
    found = [
        _rows(np.asarray(numbers), columns)
        for numbers, columns in swept(plan, combinations, arrays, speeds)
        if columns["valid"].any()
    ]
    if not found:
        return NOTHING
    together = joined(found)
    # Combinations were judged by kind.
    return together.at(np.lexsort((together.place, together.combination)))


COLUMNS = (
    *("device_bytes", "high_bytes", "budget_bytes", "host_bytes"),
    *("step_seconds", "low_step_seconds", "high_step_seconds"),
    *("between_seconds", "low_between_seconds", "high_between_seconds"),
    *("usd_run", "low_usd_run", "high_usd_run"),
)


def _rows(numbers: Array, columns: Mapping[str, Any]) -> Rows:
    which = np.nonzero(columns["valid"])
    combination, place = which
    names = tuple(name for name in columns if name.startswith(PHASE))
    figures = (
        numbers[combination].astype(np.int32),
        place.astype(np.int32),
        columns["verdict"].codes[which].astype(np.int8),
        *(columns[name][which] for name in COLUMNS),
        np.stack([columns[name][which] for name in names], axis=1),
    )
    return made(figures, names)


NOTHING = made(
    (
        *(np.zeros(0, dtype=dtype) for dtype in (np.int32, np.int32, np.int8)),
        *(np.zeros(0, dtype=np.int64) for _ in range(4)),
        *(np.zeros(0, dtype=np.float64) for _ in range(9)),
        np.zeros((0, 0), dtype=np.int64),
    ),
    (),
)
"""No row."""
