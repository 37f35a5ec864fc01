"""A dry run as rows for charts and tables. Imports no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from planner.charts_timeline import BETWEEN
from planner.dryrun.ask.answer import DryRun
from planner.footprint import CATEGORIES, Phase
from planner.ui.display import Unit
from planner.ui.tables import phase_name

NOT_EXECUTED = "closed form only"
MISSING = "missing"
NOWHERE = "outside the modules"


def against_closed_form(found: DryRun, unit: Unit) -> pd.DataFrame:
    """One row per phase: requested bytes by closed form and dry run, and how far they differ.

    Texts, since a phase that one side does not have has a word in place of a number. The
    difference is closed form minus dry run, in the unit and as a share of the dry run.
    """
    rows = []
    for one, phase in zip(found.comparisons, found.footprint.phases, strict=True):
        closed, dry = one.closed_bytes, one.dry_bytes
        left = MISSING if one.executed else NOT_EXECUTED
        both = closed is not None and dry is not None
        rows.append(
            {
                "Phase": phase_name(one.phase, phase.rank),
                f"Closed form, {unit.name}": MISSING
                if closed is None
                else f"{unit.value(closed):,.2f}",
                f"Dry run, {unit.name}": left if dry is None else f"{unit.value(dry):,.2f}",
                f"Difference, {unit.name}": signed(unit.value((closed or 0) - (dry or 0)))
                if both
                else "",
                "Difference, %": "" if one.difference is None else signed(100 * one.difference),
            }
        )
    return pd.DataFrame(rows)


def signed(value: float) -> str:
    """Two decimals with a sign; nothing but zeros has none."""
    text = f"{value:+,.2f}"
    return text.replace("-", "−") if text.strip("+-0.,") else "0.00"


def timeline_rows(found: DryRun, unit: Unit) -> pd.DataFrame:
    """One row per point of the timeline: its place, phase, op, module, total, and categories.

    Columns of categories are those that hold anything. What the dry run left to the closed
    form stands at the closed form's height of the phase, so that heights mean the same as
    in the table.
    """
    replaced = found.standing.by_formula
    by_phase = {phase.name: _flat(phase, replaced) for phase in found.footprint.phases}
    first = found.timeline[0]["event"] if found.timeline else 0
    flat: Mapping[str, int] = {}
    rows: list[dict[str, Any]] = []
    for point in found.timeline:
        flat = by_phase.get(point["phase"], flat)  # what stands stays between phases
        own = {name: size for name, size in point["by_category"].items() if name not in replaced}
        row: dict[str, Any] = {
            "event": point["event"] - first,
            "phase": point["phase"] or BETWEEN,
            "op": plain_op(point["op"]) or "where it begins",
            "module": point["module"] or NOWHERE,
        }
        for category in CATEGORIES:
            row[category] = unit.value(flat.get(category, own.get(category, 0)))
        rows.append(row)
    table = pd.DataFrame(rows)
    present = [name for name in CATEGORIES if len(table) and table[name].any()]
    table = table[["event", "phase", "op", "module", *present]] if rows else table
    return table.assign(total=table[present].sum(axis=1)) if rows else table


def _flat(phase: Phase, replaced: frozenset[str]) -> Mapping[str, int]:
    return {name: size for name, size in phase.by_category().items() if name in replaced}


def plain_op(op: str) -> str:
    """An operator's name without namespace and overload: ``aten::add.Tensor`` is ``add``."""
    return op.rpartition("::")[2].partition(".")[0]


def alive_table(phase: Mapping[str, Any], unit: Unit) -> pd.DataFrame:
    """The largest tensors alive at a phase's peak, equal ones as one row."""
    return pd.DataFrame(
        [
            {
                f"Together, {unit.name}": unit.value(one["bytes"] * one["count"]),
                "Count": one["count"],
                "Shape": " × ".join(f"{size:,}" for size in one["shape"]) or "scalar",
                "Type": one["dtype"],
                "What": one["category"],
                "Role": one["role"] or "process",
                "Made in": one["module"] or NOWHERE,
                "by": one["op"],
            }
            for one in phase["alive"]
        ]
    )


def executed(found: DryRun) -> list[Phase]:
    """The phases that the step executed, the highest first."""
    ran = [phase for phase in found.footprint.phases if phase.source == "dry run"]
    return sorted(ran, key=lambda phase: -phase.own_bytes)
