"""A sweep judged by the errors that measurements state of a plan's phases. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from planner.footprint import Footprint, StatedError

if TYPE_CHECKING:
    import pandas as pd


def stated_errors(footprint: Footprint) -> dict[str, StatedError]:
    """The measured errors of a footprint's phases on the trainer's GPU, by phase."""
    return {
        phase.name: phase.error
        for phase in footprint.phases
        if phase.error is not None and phase.rank == "trainer"
    }


def stated_sweep(table: pd.DataFrame, errors: Mapping[str, StatedError]) -> pd.DataFrame:
    """The table with what the worst phase may really take, and judged by that.

    Args:
        table: of :func:`planner.sweeps.table.sweep`; it is not changed.
        errors: by phase, as :func:`stated_errors` gives them.

    Returns:
        The table with ``least_bytes`` and ``most_bytes`` of the worst phase, empty where nobody
        measured it. A plan that fits is tight where any phase may exceed the card.
    """
    found = table.copy()
    worst = found["worst_phase"].astype(str)
    least = np.full(len(found), np.nan)
    most = np.full(len(found), np.nan)
    doubted = np.zeros(len(found))
    for phase, error in errors.items():
        column = f"phase: {phase}"
        if error.low is None or error.high is None or column not in found:
            continue
        size = found[column].to_numpy(dtype=float, na_value=np.nan)
        highest = size / (1 + error.low)
        own = (worst == phase).to_numpy()
        least[own] = size[own] / (1 + error.high)
        most[own] = highest[own]
        doubted = np.fmax(doubted, highest)
    found["least_bytes"], found["most_bytes"] = least, most
    budget = found["budget_bytes"].to_numpy(dtype=float, na_value=np.nan)
    doubtful = (found["verdict"].astype(str) == "fits").to_numpy() & (doubted > budget)
    found.loc[doubtful, "verdict"] = "tight"
    return found
