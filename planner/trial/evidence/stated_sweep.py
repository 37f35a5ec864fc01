"""A sweep judged by the errors that measurements state of each row's kind of plan. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.footprint import Footprint
from planner.plan import FIELDS, Plan, try_plan
from planner.setup.quantities import VECTOR_FIELDS
from planner.trial.evidence.kind import ErrorKind, error_kind
from planner.trial.evidence.stated_error import Compared, stated_error

if TYPE_CHECKING:
    import pandas as pd


def stated_sweep(
    table: pd.DataFrame,
    footprint: Footprint,
    own: Iterable[Compared] = (),
    committed: Iterable[Compared] | None = None,
) -> pd.DataFrame:
    """The table with what the worst phase may really take, and judged by that.

    Args:
        table: of :func:`planner.sweeps.table.sweep`; it is not changed.
        footprint: the estimate of a plan from which the table's differ by its axes alone.
        own: comparisons of stored trials.
        committed: those that come with the repository, which is the default.

    Returns:
        The table with ``least_bytes`` and ``most_bytes`` of the worst phase, empty where nobody
        measured it of such a plan. A plan that fits is tight where any phase may exceed the card.
    """
    found, kept, method = table.copy(), tuple(own), footprint.plan.method
    worst = found["worst_phase"].astype(str)
    least = np.full(len(found), np.nan)
    most = np.full(len(found), np.nan)
    doubted = np.zeros(len(found))
    trainers = [phase.name for phase in footprint.phases if phase.rank == "trainer"]
    for kind, rows in _by_kind(table, footprint.plan):
        for phase in trainers:
            column = f"phase: {phase}"
            error = stated_error(method, phase, kind, own=kept, committed=committed)
            if error.low is None or error.high is None or column not in found:
                continue
            size = found[column].to_numpy(dtype=float, na_value=np.nan)
            highest = size / (1 + error.low)
            mine = (worst == phase).to_numpy() & rows
            least[mine] = size[mine] / (1 + error.high)
            most[mine] = highest[mine]
            doubted[rows] = np.fmax(doubted, highest)[rows]
    found["least_bytes"], found["most_bytes"] = least, most
    budget = found["budget_bytes"].to_numpy(dtype=float, na_value=np.nan)
    doubtful = (found["verdict"].astype(str) == "fits").to_numpy() & (doubted > budget)
    found.loc[doubtful, "verdict"] = "tight"
    return found


def _by_kind(table: pd.DataFrame, plan: Plan) -> Iterable[tuple[ErrorKind, np.ndarray[Any, Any]]]:
    """Each kind of plan in the table, and which rows are of it; those of no plan are of none."""
    axes = [name for name in table if name in FIELDS and name not in VECTOR_FIELDS]
    if not axes:
        return [(error_kind(plan), np.ones(len(table), dtype=bool))]
    rows: dict[ErrorKind, np.ndarray[Any, Any]] = {}
    for values, places in table.groupby(axes, sort=False).indices.items():
        changes = dict(zip(axes, values if isinstance(values, tuple) else (values,), strict=True))
        gpu = changes.pop("gpu", None)
        one = try_plan({**plan.model_dump(), **changes})[0] if changes else plan
        if one is not None:
            kind = error_kind(one) if gpu is None else error_kind(one).on(gpu)
            rows.setdefault(kind, np.zeros(len(table), dtype=bool))[places] = True
    return rows.items()
