"""Curves of memory and time along one axis, for this plan and a second one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from planner.charts import curves as drawn
from planner.cost import cost
from planner.footprint import Footprint
from planner.plan import Plan
from planner.throughput import throughput
from planner.ui import compute
from planner.ui.elements import download, ink, numbers, segments
from planner.ui.scaling import own_peak
from planner.ui.scaling.axes import AXES, MODEL, TITLES, border, models, relatives
from planner.ui.state import session
from planner.ui.tables import as_csv

MEMORY, TIME, TOKENS, COST = "Memory per GPU", "Step time", "Tokens per second", "Cost of run"
FIGURES = {
    TIME: ("step_seconds", "seconds per step"),
    TOKENS: ("tokens_per_second_per_gpu", "tokens per second and GPU"),
    COST: ("usd_run", "US dollars of the run"),
}
"""What comes of seconds: a sweep's column, and the axis' title."""
NAN = float("nan")
VALUE, TO_PLAN, TO_B = "Value", "Ratio to this plan", "Ratio B ÷ A"


@dataclass(frozen=True, slots=True)
class Choice:
    """What the page shows: the axis, its values, the quantity, and how it is read."""

    field: str
    values: list[Any]
    quantity: str
    reading: str
    own: bool = False
    """Memory is the trainer's own peak."""

    @property
    def column(self) -> str:
        """Of a sweep's table, what the curves are of."""
        if self.quantity in FIGURES:
            return FIGURES[self.quantity][0]
        return "trainer_bytes" if self.own else "device_bytes"


def choose(plan: Plan, other: Plan | None) -> Choice:
    """The controls above the curves."""
    field = segments(
        "Vary",
        list(TITLES),
        "axis",
        default="response_tokens",
        format_func=TITLES.__getitem__,
        help="The field that goes along the axis; everything else stays as in the plan.",
    )
    values = _models(plan) if field == MODEL else _range(field, plan)
    quantity = segments(
        "Show",
        [MEMORY, *FIGURES],
        "quantity",
        default=MEMORY,
        help="Memory is the peak of the worst phase. Time is one step's; tokens are those of "
        "prompts and responses, by all seconds and GPUs; the cost is that of plans that run. The "
        "bands are where published runs lay.",
    )
    readings = [VALUE, TO_PLAN, *([TO_B] if other else [])]
    if st.session_state.get("reading as") not in readings:
        st.session_state["reading as"] = VALUE
    reading = segments(
        "As",
        readings,
        "reading as",
        help="A ratio to this plan divides by what the plan needs at its own value; B ÷ A "
        "divides plan B by plan A at the same place.",
    )
    own = quantity == MEMORY and own_peak.switch()
    return Choice(field, values, quantity, reading, own)


def _range(field: str, plan: Plan) -> list[int]:
    axis = AXES[field]
    ticks = axis.ticks()
    top = max(getattr(plan, field) * 8, axis.low * 16)
    low, high = st.select_slider(
        f"From and to, {axis.unit}",
        ticks,
        value=(ticks[0], max(tick for tick in ticks if tick <= top)),
        key=f"range:{field}",
        format_func=lambda tick: f"{tick:,}",
        on_change=session.acted,
        help="Powers of two, and the plan's own value.",
    )
    return axis.values(plan, low, high)


def _models(plan: Plan) -> list[str]:
    known = models()
    return st.multiselect(
        "Models",
        list(known),
        default=relatives(plan.model),
        key="models on axis",
        format_func=lambda id: f"{id} · {known[id] / 1e9:.3g} B",
        on_change=session.acted,
        help="Only models whose activations are derived can be chosen.",
    )


def curves(plan: Plan, other: Plan | None, choice: Choice) -> None:
    """The border in words, the chart, the table and the file."""
    if not choice.values:
        st.info("Choose at least one value.", icon=":material/info:")
        return
    named = {"A: this plan": plan, **({"B: compared": other} if other else {})}
    tables = {name: compute.swept(p, {choice.field: choice.values}) for name, p in named.items()}
    for name, p in named.items():
        _border(f"**{name}**: " if other else "", p, choice.field, tables[name])
    rows = pd.concat([_tidy(name, tables[name], choice) for name in named], ignore_index=True)
    rows, y_title = _read_as(rows, choice, plan)
    rows = rows.dropna(subset=["y"])
    if rows.empty:
        st.info("Nothing to draw: no possible plan, or its time is not known.")
    else:
        _chart(rows, choice, y_title, named, tables)
    _table(tables, choice)


def _border(lead: str, plan: Plan, field: str, table: pd.DataFrame) -> None:
    axis = AXES.get(field)
    if axis is None:
        return
    exact = compute.swept(plan, {field: list(range(axis.finest, axis.high + 1, axis.finest))})
    st.markdown(f":material/straighten: {lead}{border(exact, field, axis.unit)}")
    if refused := int((~_valid(table)).sum()):
        noun = "value makes" if refused == 1 else "values make"
        st.caption(f"{refused} {noun} an impossible plan and are left out (see the table).")


def _valid(table: pd.DataFrame) -> pd.Series[bool]:
    return table["valid"].astype(bool)


def _tidy(name: str, table: pd.DataFrame, choice: Choice) -> pd.DataFrame:
    """What is drawn of a plan; measured errors are of the driver's peak, and of seconds."""
    table = table[_valid(table)]
    unit, memory = session.unit(), choice.quantity == MEMORY
    one = unit.size_bytes if memory else 1
    phase = "trainer_phase" if choice.own else "worst_phase"
    sizes: dict[str, Any] = {"y": table[choice.column].astype(float) / one}
    sizes |= _memory_between(table, choice) if memory else _between(sizes["y"], table, choice)
    return pd.DataFrame(
        {
            "x": table[MODEL].map(models()) if choice.field == MODEL else table[choice.field],
            **sizes,
            "plan": name,
            "word": table["verdict"].astype(str),
            "detail": table[phase].astype(str),
        }
    ).sort_values("x")


def _memory_between(table: pd.DataFrame, choice: Choice) -> dict[str, Any]:
    if choice.own:
        return {"least": NAN, "most": NAN}
    size = session.unit().size_bytes
    return {end: table[f"{end}_bytes"].astype(float) / size for end in ("least", "most")}


def _between(figure: pd.Series[float], table: pd.DataFrame, choice: Choice) -> dict[str, Any]:
    """By as much as seconds may be off: rates are one over them."""
    seconds = table["step_seconds"].astype(float)
    low, high = (table[f"{end}_step_seconds"].astype(float) / seconds for end in ("low", "high"))
    if choice.quantity == TOKENS:
        low, high = 1 / high, 1 / low
    return {"least": figure * low, "most": figure * high}


def _read_as(
    rows: pd.DataFrame, choice: Choice, plan: Plan
) -> tuple[pd.DataFrame, str]:
    unit = session.unit()
    whose = "trainer's own peak" if choice.own else "peak memory"
    memory = choice.quantity == MEMORY
    title = f"{whose} per GPU, {unit.name}" if memory else FIGURES[choice.quantity][1]
    if choice.reading == VALUE:
        return rows, title
    rows = rows.assign(least=NAN, most=NAN)  # a share has no such range
    if choice.reading == TO_PLAN:
        own = compute.footprint(plan)
        size = unit.value(own_peak.size_bytes(own, choice.own))
        base = size if memory else _own(own, choice)
        return rows.assign(y=rows["y"] / base if base else NAN), "times this plan's"
    first, second = (part for _, part in rows.groupby("plan", sort=True))
    joined = second.merge(first[["x", "y"]], on="x", suffixes=("", "_a"))
    return joined.assign(y=joined["y"] / joined["y_a"], plan="B ÷ A"), "B ÷ A"


def _own(footprint: Footprint, choice: Choice) -> float | None:
    """The plan's own figure."""
    figures = throughput(footprint, cost(footprint))
    if choice.quantity == TIME:
        return footprint.step_seconds
    found = figures.get(FIGURES[choice.quantity][0])
    return None if found is None else found.value


def _chart(
    rows: pd.DataFrame,
    choice: Choice,
    y_title: str,
    named: dict[str, Plan],
    tables: dict[str, pd.DataFrame],
) -> None:
    unit = session.unit()
    drawn_sizes = choice.quantity == MEMORY and choice.reading == VALUE
    lines = {"card": "budget_bytes", **({"engine's pool": "engine_bytes"} if choice.own else {})}
    heights = {
        (kind, unit.value(float(found.iloc[0])))
        for kind, column in lines.items()
        for table in tables.values()
        if drawn_sizes and column in table and len(found := table[column].dropna())
    }
    own = [
        models().get(p.model, 0) if choice.field == MODEL else getattr(p, choice.field)
        for p in named.values()
    ]
    axis = AXES.get(choice.field)
    x_title = f"{axis.title.lower()}, {axis.unit}" if axis else "parameters"
    st.altair_chart(
        drawn.curves(
            rows,
            x_title=x_title,
            y_title=y_title,
            capacities=sorted(height for height in heights if height[1]),
            unit=unit.name,
            marked=[x for x in own if rows["x"].min() <= x <= rows["x"].max()],
            ink=ink(),
        ),
        key="curves",
        height=drawn.CURVE + 90,
        alt=f"{y_title} over {x_title}, from {rows['y'].min():.3g} to {rows['y'].max():.3g}; "
        "the table below has every value.",
    )


def _table(tables: dict[str, pd.DataFrame], choice: Choice) -> None:
    table = pd.concat([part.assign(plan=name) for name, part in tables.items()], ignore_index=True)
    unit, valid = session.unit(), _valid(table)
    table["verdict"] = table["verdict"].astype(object).where(valid, "impossible")
    numbered = {
        f"Peak, {unit.name}": table["device_bytes"].astype(float) / unit.size_bytes,
        f"Trainer's own, {unit.name}": table["trainer_bytes"].astype(float) / unit.size_bytes,
        f"Engine's pool, {unit.name}": table["engine_bytes"].astype(float) / unit.size_bytes,
        "Worst phase": table["worst_phase"].astype(object),
        "Seconds per step": table["step_seconds"].astype(float),
        "At least": table["low_step_seconds"].astype(float),
        "At most": table["high_step_seconds"].astype(float),
        "Tokens/s per GPU": table["tokens_per_second_per_gpu"].astype(float),
        "MFU of the update": table["mfu"].astype(float),
        "GPU-hours of run": table["gpu_hours_run"].astype(float),
        "Cost of run, $": table["usd_run"].astype(float),
        f"Host RAM, {unit.name}": table["host_bytes"].astype(float) / unit.size_bytes,
    }
    shown = pd.DataFrame(
        {
            "Plan": table["plan"],
            TITLES[choice.field]: table[choice.field],
            "Verdict": table["verdict"].astype(str),
            **{name: column.where(valid) for name, column in numbered.items()},
        }
    )
    with st.expander("Table", icon=":material/table:", key="curve-table", on_change=session.acted):
        st.dataframe(
            shown,
            hide_index=True,
            key="curve-rows",
            alt="The values of the curves",
            column_config=numbers((name for name in numbered if name != "Worst phase"), "%.4g"),
        )
    name = f"headroom-{choice.field}.csv"
    download("Table as CSV", lambda: as_csv(table), name, "download-csv")
