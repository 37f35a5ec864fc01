"""What the panels of a numeric axis show: phases with the pool apart, seconds, dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd

from planner.charts.panel import DASHES, PALETTE, SECOND, Line, Panel
from planner.cost import cost
from planner.footprint import Footprint
from planner.plan import Plan
from planner.ui import compute
from planner.ui.scaling import knee, own_peak
from planner.ui.scaling.choice import TO_B, VALUE, Choice
from planner.ui.state import session
from planner.units import read_listed

A, B = "A: this plan", "B: compared"
SECONDS, DOLLARS = "Seconds per step", "Dollars per run"
PHASE = "phase: "
MEMORY_PIXELS = 310
WRAP = 11
"""Letters of a line's name before it goes on below."""
BANDS = "Bands: error on published runs."
STEPS = (
    "Jumps in time: vLLM's KV cache holds fewer sequences at once, so the rollout takes another "
    "round."
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Rows of all panels by ``x``, the panels, and what has to be known to read them."""

    rows: pd.DataFrame
    panels: Sequence[Panel]
    caption: str


def curves_of(table: pd.DataFrame) -> list[str]:
    """The columns of a sweep whose bends are drawn."""
    phases = [name for name in table if str(name).startswith(PHASE)]
    return [*map(str, phases), "trainer_bytes", "step_seconds", "usd_run"]


def drawn(
    named: Mapping[str, Plan],
    choice: Choice,
    shown: Mapping[str, pd.DataFrame],
    possible: pd.DataFrame,
) -> Drawn:
    """The panels of the shown tables; ``possible`` are all plans of A between the ends."""
    rows = pd.DataFrame({"x": sorted(set().union(*(table["x"] for table in shown.values())))})
    rows = rows.set_index("x", drop=False)
    first = shown[A].set_index("x")
    rows = rows.join(first[["verdict", "limit", "worst_phase"]].astype(str))
    if choice.reading == VALUE and not choice.own:
        memory, words = _phases(rows, named, shown)
    else:
        memory, words = _peaks(rows, named, choice, shown), ""
    found = [memory]
    for title, column in ((SECONDS, "step_seconds"), (DOLLARS, "usd_run")):
        panel = _figures(rows, named, choice, shown, title, column, possible)
        if panel is not None:
            found.append(panel)
    missing = "" if len(found) == 3 else f" {_missing(named[A], found)}"
    bands = f" {BANDS}" if any(line.low for panel in found for line in panel.lines) else ""
    # A twentieth longer from one length to the next is no bend.
    jumps = (possible["step_seconds"].pct_change(fill_method=None) > 0.05).any()
    steps = f" {STEPS}" if choice.field == "response_tokens" and jumps else ""
    return Drawn(rows.reset_index(drop=True), found, f"{words}{bands}{steps}{missing}".strip())


def _missing(plan: Plan, found: Sequence[Panel]) -> str:
    if len(found) == 1:
        return "No plan in this range runs and has a known step time."
    priced = compute.price(plan).price_per_gpu_hour is not None
    return "" if priced else "No cost: the catalog has no price for this GPU."


def _phases(
    rows: pd.DataFrame, named: Mapping[str, Plan], shown: Mapping[str, pd.DataFrame]
) -> tuple[Panel, str]:
    """Each phase's peak on the trainer's GPU, without what the awake engine takes by its share."""
    unit = session.unit()
    sizes, awake = apart(compute.footprint(named[A]), shown[A].set_index("x"))
    lines: list[Line] = []
    for number, group in enumerate(_alike(sizes)):
        name = fill(", ".join(group), WRAP, break_on_hyphens=False)
        dash = DASHES[number // len(PALETTE) % len(DASHES)]
        column = ", ".join(group)
        rows[column] = sizes[group[0]] / unit.size_bytes
        lines.append(
            Line(column=column, name=name, color=PALETTE[number % len(PALETTE)], dash=dash)
        )
    own = compute.footprint(named[A])
    card, pool = own.budget_bytes, own.engine_bytes
    heights = [("GPU", unit.value(card))]
    words = "Each line is one phase's peak on one GPU."
    if awake:
        heights.append(("left after vLLM's reservation", unit.value(card - pool)))
        words += (
            f" vLLM's reservation ({session.read(pool)}) is not in the lines: {read_listed(awake)} "
            "must stay below the lower limit, the other phases below the GPU's."
        )
    elsewhere = [p.name for p in own.phases if p.rank != "trainer"]
    if elsewhere:
        words += f" {read_listed(elsewhere).capitalize()} runs on vLLM's own GPUs."
    if B in named:
        others, _ = apart(compute.footprint(named[B]), shown[B].set_index("x"))
        rows["B: worst phase"] = others.max(axis=1) / unit.size_bytes
        color, dash = SECOND
        lines.append(Line(column="B: worst phase", name="B: worst", color=color, dash=dash))
        theirs = compute.footprint(named[B]).budget_bytes
        if theirs != card:
            heights.append(("B's GPU", unit.value(theirs)))
    limits = [(f"{name}: {height:,.1f} {unit.name}", height) for name, height in heights]
    title = f"Memory per GPU, {unit.name}" + (", without vLLM's reservation" if awake else "")
    panel = Panel(
        title=title,
        unit=unit.name,
        lines=lines,
        height=MEMORY_PIXELS,
        form=",.1f",
        limits=limits,
    )
    return panel, words


def apart(footprint: Footprint, table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Bytes of the trainer's phases in each row with the pool apart, and those it is awake in.

    In a phase the engine holds its most, or sleeps, wherever on an axis the plan is.
    """
    pool = footprint.engine_bytes
    trainers = [p for p in footprint.phases if p.rank == "trainer" and PHASE + p.name in table]
    awake = [p.name for p in trainers if pool and p.by_category().get("engine", 0) == pool]
    sizes = table[[PHASE + p.name for p in trainers]].astype(float)
    sizes.columns = pd.Index([p.name for p in trainers])
    sizes[awake] = sizes[awake].sub(table["engine_bytes"].astype(float), axis=0)
    return sizes, awake


def _alike(sizes: pd.DataFrame) -> list[list[str]]:
    """Phases whose lines lie on each other, together."""
    values = sizes.to_numpy()
    near = 0.004 * np.nanmax(values)
    groups: list[list[int]] = []
    for number in range(values.shape[1]):
        same = (g for g in groups if np.abs(values[:, g[0]] - values[:, number]).max() <= near)
        group = next(same, None)
        if group is None:
            groups.append([number])
        else:
            group.append(number)
    return [[str(sizes.columns[number]) for number in group] for group in groups]


def _peaks(
    rows: pd.DataFrame,
    named: Mapping[str, Plan],
    choice: Choice,
    shown: Mapping[str, pd.DataFrame],
) -> Panel:
    """One peak per plan: the driver's, or the trainer's own."""
    unit = session.unit()
    column = "trainer_bytes" if choice.own else "device_bytes"
    whose = "Training tensors per GPU" if choice.own else "Peak memory per GPU"
    own = {name: own_peak.size_bytes(compute.footprint(p), choice.own) for name, p in named.items()}
    lines = _lines(rows, choice, shown, column, whose, 1 / unit.size_bytes, own[A])
    heights: list[tuple[str, float]] = []
    if choice.reading == VALUE:
        first = compute.footprint(named[A])
        heights = [("GPU", unit.value(first.budget_bytes))]
        if pool := first.engine_bytes:
            heights.append(("vLLM's reservation", unit.value(pool)))
    by = unit.name if choice.reading == VALUE else _ratio(choice)
    limits = [(f"{name}: {height:,.1f} {unit.name}", height) for name, height in heights]
    return Panel(title=f"{whose}, {by}", unit=by, lines=lines, height=MEMORY_PIXELS, limits=limits)


def _ratio(choice: Choice) -> str:
    return "B ÷ A" if choice.reading == TO_B else "times this plan's"


def _lines(
    rows: pd.DataFrame,
    choice: Choice,
    shown: Mapping[str, pd.DataFrame],
    column: str,
    whose: str,
    size: float,
    base: float | None,
) -> list[Line]:
    """A figure of each plan, or its ratio, as columns of the rows."""
    figures = {name: _known(table, column) for name, table in shown.items()}
    if choice.reading == TO_B:
        rows[whose] = figures[B] / figures[A]
        return [Line(column=whose, name="B ÷ A")]
    by = size if choice.reading == VALUE else 1 / base if base else float("nan")
    lines = []
    for name, figure in figures.items():
        own = f"{whose}, {name[0]}"
        rows[own] = figure * by
        color, dash = SECOND if name == B else (PALETTE[0], DASHES[0])
        low = high = ""
        if choice.reading == VALUE and column in ("step_seconds", "usd_run"):
            low, high = f"{own} at least", f"{own} at most"
            rows[low] = _known(shown[name], f"low_{column}")
            rows[high] = _known(shown[name], f"high_{column}")
        called = name[0] if len(shown) > 1 else ""
        lines.append(Line(column=own, name=called, color=color, dash=dash, low=low, high=high))
    return lines


def _known(table: pd.DataFrame, column: str) -> pd.Series[Any]:
    """A column by ``x``; seconds and dollars of plans that run alone."""
    found = table.set_index("x")[column].astype(float)
    if column.endswith("bytes"):
        return found
    return found.where((table["verdict"].astype(str) != "out of memory").to_numpy())


def _figures(
    rows: pd.DataFrame,
    named: Mapping[str, Plan],
    choice: Choice,
    shown: Mapping[str, pd.DataFrame],
    title: str,
    column: str,
    possible: pd.DataFrame,
) -> Panel | None:
    """Seconds or dollars; None where no plan has them."""
    footprint = compute.footprint(named[A])
    own = footprint.step_seconds if column == "step_seconds" else cost(footprint).usd_run
    lines = _lines(rows, choice, shown, column, title, 1.0, own)
    if not rows[[line.column for line in lines]].notna().to_numpy().any():
        return None
    marks: list[tuple[float, str]] = []
    found = knee.scaling(possible) if choice.field == "gpus" else None
    if found and column == "step_seconds" and choice.reading == VALUE:
        rows["ideal"] = pd.Series(found.ideal, index=found.gpus)
        lines.append(Line(column="ideal", name="ideal scaling", color=PALETTE[5], dash=DASHES[2]))
        marks = [(float(found.gpus[found.knee]), f"knee: {found.gpus[found.knee]:,}")]
    if choice.reading != VALUE:
        return Panel(title=f"{title}, {_ratio(choice)}", unit=_ratio(choice), lines=lines)
    unit = "s" if column == "step_seconds" else "$"
    return Panel(title=title, unit=unit, lines=lines, marks=marks)
