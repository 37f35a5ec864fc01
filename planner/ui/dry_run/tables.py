"""A dry run as rows for charts and tables. Imports no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from planner.charts.timeline import BETWEEN
from planner.dryrun.ask.answer import DryRun
from planner.footprint import Phase
from planner.term import CATEGORIES
from planner.ui.tables import phase_name
from planner.wording.display import Unit

NOT_EXECUTED = "closed form only"
MISSING = "missing"
NOWHERE = "outside the modules"


def against_closed_form(found: DryRun, unit: Unit) -> pd.DataFrame:
    """One row per phase: requested bytes by closed form and dry run, and both on the GPU.

    Texts, since a phase that one side does not have has a word in place of a number. The
    difference is closed form minus dry run, in the unit and as a share of the dry run.
    """
    closed_device = {one.name: one.device_bytes for one in found.estimate.phases}
    rows = []
    for one, phase in zip(found.comparisons, found.footprint.phases, strict=True):
        closed, dry = one.closed_bytes, one.dry_bytes
        left = MISSING if one.executed else NOT_EXECUTED
        rows.append(
            {
                "Phase": phase_name(phase),
                f"Closed form, {unit.name}": _number(closed, unit, MISSING),
                f"Dry run, {unit.name}": _number(dry, unit, left),
                f"Difference, {unit.name}": ""
                if closed is None or dry is None
                else signed(unit.value(closed - dry)),
                "Difference, %": "" if one.difference is None else signed(100 * one.difference),
                f"GPU, closed form, {unit.name}": _number(
                    closed_device.get(phase.name), unit, MISSING
                ),
                f"GPU, dry run, {unit.name}": left
                if dry is None
                else _number(phase.device_bytes, unit, left),
            }
        )
    return pd.DataFrame(rows)


def _number(size_bytes: int | None, unit: Unit, otherwise: str) -> str:
    return otherwise if size_bytes is None else f"{unit.value(size_bytes):,.2f}"


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
    by_phase: dict[str, dict[str, int]] = {
        phase.name: {str(name): n for name, n in phase.by_category().items() if name in replaced}
        for phase in found.footprint.phases
    }
    flat: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    for point in found.timeline:
        flat = by_phase.get(point["phase"], flat)  # what stands stays between phases
        sizes = {n: size for n, size in point["by_category"].items() if n not in replaced}
        sizes.update(flat)
        rows.append(
            {
                "event": point["event"] - found.timeline[0]["event"],
                "phase": point["phase"] or BETWEEN,
                "op": plain_op(point["op"]) or "where it begins",
                "module": point["module"] or NOWHERE,
                **{name: unit.value(sizes.get(name, 0)) for name in CATEGORIES},
            }
        )
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    present = [name for name in CATEGORIES if table[name].any()]
    table = table[["event", "phase", "op", "module", *present]]
    return table.assign(total=table[present].sum(axis=1))


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
