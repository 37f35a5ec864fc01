"""Memory, time and dollars along one axis, for this plan and a second one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from planner.charts import curves as charts
from planner.charts.panel import Axis, Closed
from planner.plan import Plan, try_plan
from planner.ui import compute
from planner.ui.elements import ink, said
from planner.ui.scaling import knee, limits, panels, rows
from planner.ui.scaling.axes import AXES, MODEL, ONE, TITLES, border, models
from planner.ui.scaling.choice import Choice
from planner.ui.scaling.limits import broken
from planner.ui.scaling.panels import A, B
from planner.ui.scaling.points import EVEN, drawn
from planner.wording.display import plain

Tables = Mapping[str, pd.DataFrame]


def curves(plan: Plan, other: Plan | None, choice: Choice) -> None:
    """Sentences, the table, the chart above it: in this order, since numbers come first."""
    named = {A: plan, **({B: other} if other else {})}
    whole = {name: _swept(one, choice, list(named.values())) for name, one in named.items()}
    possible = {name: _possible(table, choice) for name, table in whole.items()}
    for name, one in named.items():
        lead = f"**{name}**: " if other else ""
        _sentences(lead, one, choice, whole[name], possible[name])
    if possible[A].empty:
        st.info("Nothing to draw: no valid plan in this range.", icon=":material/info:")
        return
    shown = _shown(possible, choice)
    place = st.container()
    each = [table.assign(plan=name) for name, table in shown.items()]
    rows.table(pd.concat(each, ignore_index=True), choice.field, named)
    with place:
        _chart(named, choice, shown, possible[A])


def _swept(plan: Plan, choice: Choice, plans: Sequence[Plan]) -> pd.DataFrame:
    """The plan at every value of the axis, and the limit that each of them meets."""
    axis = AXES.get(choice.field)
    values = axis.values(plans, choice.low, choice.high) if axis else list(choice.members)
    table = compute.swept(plan, {choice.field: values})
    table["valid"] = table["valid"].astype(bool)
    return table.assign(limit=limits.limits(table, plan))


def _possible(table: pd.DataFrame, choice: Choice) -> pd.DataFrame:
    """Possible plans between the chosen ends, in their order, with their place ``x``."""
    field = choice.field
    own = table[table["valid"]]
    if field == MODEL:
        return own.assign(x=own[field].map(models())).sort_values("x")
    return own[own[field].between(choice.low, choice.high)].assign(x=lambda found: found[field])


def _shown(possible: Tables, choice: Choice) -> Tables:
    """What is drawn of each, at the same places."""
    if choice.field == MODEL:
        return possible
    places = sorted(
        {
            place
            for table in possible.values()
            if len(table)
            for place in drawn(table, choice.field, panels.curves_of(table))
        }
    )
    return {name: table[table[choice.field].isin(places)] for name, table in possible.items()}


def _sentences(
    lead: str, plan: Plan, choice: Choice, whole: pd.DataFrame, possible: pd.DataFrame
) -> None:
    """Up to where the plan runs, what stops it, what is left out, and the knee."""
    axis = AXES.get(choice.field)
    if axis is None:
        st.markdown(f":material/straighten: {lead}{_members(whole)}")
        return
    st.markdown(f":material/straighten: {lead}{border(whole, choice.field, axis.unit)}")
    lines = []
    found = limits.stretches(possible, choice.field, possible["limit"])
    if found:
        lowest, highest = (int(possible["x"].iloc[place]) for place in (0, -1))
        lines.append(f"Limits: {limits.words(found, lowest, highest)}.")
    lines += _holes(plan, choice, whole)
    if found_knee := knee.scaling(possible) if choice.field == "gpus" else None:
        lines.append(knee.words(found_knee))
    if lines:
        st.caption("  \n".join(lines).replace("$", r"\$"))


def _members(whole: pd.DataFrame) -> str:
    """What stops which models; those that run."""
    names = whole[MODEL].str.rpartition("/")[2].map(plain)
    met = whole["limit"].where(whole["valid"], "not a valid plan")
    runs = ", ".join(f"**{name}**" for name in names[met == ""]) or "none of them"
    stopped = "; ".join(
        f"{limit}: {', '.join(names[met == limit])}" for limit in dict.fromkeys(met) if limit
    )
    return f"Runs: {runs}." + (f" {stopped[:1].upper()}{stopped[1:]}." if stopped else "")


def _holes(plan: Plan, choice: Choice, whole: pd.DataFrame) -> list[str]:
    """How many values are drawn where few make a plan: what refuses the others, and one of them."""
    within = whole[whole[choice.field].between(choice.low, choice.high)]
    refused = within[choice.field][~within["valid"]]
    if refused.empty:
        return []
    first = int(refused.iloc[0])
    _, problems = try_plan({**plan.model_dump(), **rows.changed(plan, choice.field, first)})
    unit = AXES[choice.field].unit
    named = ONE.get(unit, unit) if first == 1 else unit
    why = said(problems[0].sentence) if problems else "it breaks a rule of the plan."
    lines = [
        f"{len(within) - len(refused):,} of {len(within):,} values are valid plans; lines connect "
        f"those. For example, {first:,} {named} is not: {why}"
    ]
    if len(within) - len(refused) < EVEN:
        rules = broken(plan, choice.field, refused.astype(int).tolist())
        told = "; ".join(f"{said(one.why).rstrip('.')} ({one.values:,})" for one in rules)
        lines.append(f"All valid values are drawn. Rules that the other values break: {told}.")
    return lines


def _chart(
    named: Mapping[str, Plan], choice: Choice, shown: Tables, possible: pd.DataFrame
) -> None:
    found = panels.drawn(named, choice, shown, possible)
    x = found.rows["x"]
    axis = AXES.get(choice.field)
    own: dict[float, str] = {}
    for one, name in zip(named.values(), ("this plan", "B"), strict=False):
        at = float(models().get(one.model, 0) if axis is None else getattr(one, choice.field))
        own[at] = f"{own[at]}, {name}" if at in own else name
    ticks = [tick for tick in axis.ticks() if x.min() <= tick <= x.max()] if axis else x
    stretches = limits.stretches(possible, "x", possible["limit"])
    names = " · ".join(panel.title for panel in found.panels)
    st.vega_lite_chart(
        charts.curves(
            found.rows,
            found.panels,
            Axis(
                title=axis.called if axis else "Parameters",
                low=float(x.min()),
                high=float(x.max()),
                ticks=[float(tick) for tick in ticks] or [float(x.max())],
                own=[(at, name) for at, name in own.items() if x.min() <= at <= x.max()],
                form=",~r" if axis else ".3~s",
            ),
            closed=[Closed(low=one.start, high=one.end, label=one.label) for one in stretches],
            read=(("verdict", "verdict"), ("limit", "limit"), ("worst_phase", "worst phase")),
            ink=ink(),
        ),
        key="curves",
        width="stretch",
        alt=f"{names}, along {TITLES[choice.field]} from {x.min():,.0f} to {x.max():,.0f}; the "
        "table below has every value.",
    )
    st.caption(found.caption)
