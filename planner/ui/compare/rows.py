"""A comparison as rows for tables and the chart. Imports no Streamlit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from planner.comparison import Compared, Difference, Effect, figures_of, read_moved
from planner.ui.tables import phase_name
from planner.wording.choices import spoken
from planner.wording.display import Unit
from planner.wording.fields import short_label

Read = Callable[[float], str]
ADDED = ("Peak", "Step", "Cost of run", "Verdict", "Found")
OWN_COLUMNS = ("Figure", "Setting", *ADDED)
"""Names that no plan can have beside them."""


def figures(plans: Sequence[Compared], read: Read) -> pd.DataFrame:
    """A row per figure, a column per plan."""
    found = [figures_of(one, read) for one in plans]
    return pd.DataFrame(
        [(label, *(each[label] for each in found)) for label in found[0]],
        columns=["Figure", *(one.name for one in plans)],
    )


def settings(differences: Sequence[Difference], plans: Sequence[Compared]) -> pd.DataFrame:
    """A row per setting that differs, a column per plan."""
    return pd.DataFrame(
        [
            (
                short_label(one.field) + (" (no effect in any of them)" if one.idle else ""),
                *(in_a_cell(one.field, value) for value in one.values),
            )
            for one in differences
        ],
        columns=["Setting", *(one.name for one in plans)],
    )


def in_a_cell(field: str, value: Any) -> str:
    """A value by its name alone: a cell has no room for what its list explains behind a dot."""
    return spoken(field, value).partition(" · ")[0]


def phases(plans: Sequence[Compared], unit: Unit) -> pd.DataFrame:
    """A row per phase and plan, as :func:`planner.charts.compared.phases_of_plans` draws them."""
    order = dict.fromkeys(phase_name(each) for one in plans for each in one.footprint.phases)
    found = [
        {
            "phase": phase_name(phase),
            "plan": one.name,
            "own": unit.value(phase.training_bytes),
            "total": unit.value(phase.device_bytes),
            "capacity": unit.value(one.footprint.budget_bytes),
            "detail": phase.instant,
        }
        for one in plans
        for phase in one.footprint.phases
    ]
    rows = pd.DataFrame(found)
    places = {name: place for place, name in enumerate(order)}
    return rows.sort_values("phase", key=lambda names: names.map(places), kind="stable")


def phases_in_words(rows: pd.DataFrame, unit: Unit) -> str:
    """The chart for those who do not see it."""
    said = (
        f"{one['phase']}, {one['plan']}: {one['total']:.1f} {unit.name}, of which vLLM reserves "
        f"{one['total'] - one['own']:.1f}"
        for one in rows.to_dict("records")
    )
    return f"Peak memory of each phase and plan. {'; '.join(said)}."


def matters(
    effects: Sequence[Effect], before: Compared, after: Compared, read: Read
) -> pd.DataFrame:
    """A row per difference that matters: what it adds to peak, step and cost."""
    found = []
    for one in effects:
        if not one.matters or one.telling is None:
            continue
        alone = one.telling is one.alone
        found.append(
            (
                joined([short_label(each.field) for each in one.changes]),
                joined([in_a_cell(each.field, each.before) for each in one.changes]),
                joined([in_a_cell(each.field, each.after) for each in one.changes]),
                *read_moved(one.telling, read),
                f"changed alone in {before.name}" if alone else f"changed back in {after.name}",
            )
        )
    return pd.DataFrame(found, columns=["Setting", before.name, after.name, *ADDED])


def idle(effects: Sequence[Effect]) -> list[str]:
    """Labels of the settings that move no figure by more than a hundredth."""
    return [short_label(each.field) for one in effects if not one.matters for each in one.changes]


def joined(texts: Sequence[str]) -> str:
    """Settings that come together."""
    return " + ".join(texts)
