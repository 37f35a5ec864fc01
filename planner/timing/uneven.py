"""Seconds for which GPUs with shorter rows wait for the one with the longest."""

from __future__ import annotations

from planner.footprint import TimeTerm
from planner.formulas.passes import LAUNCHES
from planner.formulas.uneven import UNEVEN
from planner.phases.phase import Work


def uneven(row: Work, computed: tuple[TimeTerm, ...]) -> tuple[TimeTerm, ...]:
    """What follows a pass on the average GPU; nothing where all rows are of one length.

    Launches take as long on every GPU, so waiting begins when the slowest computes for longer.
    """
    if isinstance(row.imbalance, int) and row.imbalance == 1:
        return ()
    launched = [term.seconds for term in computed if term.name == LAUNCHES.name]
    seconds = sum(term.seconds for term in computed) - sum(launched)
    found = UNEVEN.term(
        row.role.name,
        computed_seconds=seconds,
        imbalance=row.imbalance,
        launch_seconds=sum(launched),
    )
    return (found,)
