"""What the Scaling page varies: the field, its values, and where the plan stops fitting.

Imports no Streamlit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from planner import catalog
from planner.plan import Plan
from planner.ui.scaling.points import EVEN


@dataclass(frozen=True, slots=True)
class Axis:
    """A field to vary. ``finest`` is the step in which the exact border is searched."""

    field: str
    title: str
    unit: str
    low: int
    high: int
    finest: int = 1

    @property
    def called(self) -> str:
        """Title and unit, once where they are one word."""
        return self.title if self.title == self.unit else f"{self.title}, {self.unit}"

    def ticks(self) -> tuple[int, ...]:
        """Powers of two from low to high."""
        return tuple(self.low << n for n in range((self.high // self.low).bit_length()))

    def values(self, plans: Sequence[Plan], low: int, high: int) -> list[int]:
        """All that are swept: every step of the axis, the plans' own, and more where it is long.

        Steps are too few where the axis is narrow, so there are ``EVEN`` even places besides.
        """
        own = {getattr(plan, self.field) for plan in plans}
        unit = max(self.finest // 16, 1)  # 136 tokens and never 139
        even = (np.geomspace(low, high, EVEN) / unit).round().astype(int) * unit
        steps = range(self.finest, self.high + 1, self.finest)
        return sorted({*steps, *even.tolist(), *own, *self.ticks()})


AXES: Mapping[str, Axis] = {
    axis.field: axis
    for axis in (
        Axis("response_tokens", "Response length", "tokens", 128, 131_072, 64),
        Axis("micro_batch_size", "Micro-batch", "sequences per GPU and forward", 1, 256),
        Axis("prompts_per_step", "Prompts per step", "prompts", 1, 4096),
        Axis("gpus", "GPUs", "GPUs", 1, 1024),
    )
}
"""Axes of numbers; models and kinds of GPU are chosen from lists instead."""

ONE = {
    "GPUs": "GPU",
    "prompts": "prompt",
    "tokens": "token",
    "sequences per GPU and forward": "sequence per GPU and forward",
}
"""What one of a unit is called."""
MOST = {
    "response_tokens": "Longest response that runs",
    "micro_batch_size": "Largest micro-batch that runs",
    "prompts_per_step": "Most prompts per step that run",
    "gpus": "Most GPUs it runs on",
}
MODEL, CARD = "model", "gpu"
TITLES: Mapping[str, str] = {
    **{field: axis.title for field, axis in AXES.items()},
    CARD: "GPU type",
    MODEL: "Model size",
}


def family(model: str) -> str:
    """What sizes of one model family have in common: ``Qwen/Qwen2.5`` of ``Qwen/Qwen2.5-7B``."""
    return re.split(r"-?\d+(\.\d+)?[BbMm](?![A-Za-z])", model)[0].rstrip("-")


def models() -> dict[str, int]:
    """Every model that can be planned and its parameters, smallest first."""
    known = {m.id: m.params for m in catalog.models() if m.architecture is not None and m.params}
    return dict(sorted(known.items(), key=lambda row: row[1]))


def relatives(model: str) -> list[str]:
    """Models of the same family; at least a few sizes when the family is small."""
    known = models()
    own = [id for id in known if family(id) == family(model)]
    if len(own) >= 3:
        return own
    return list(dict.fromkeys([*own, *relatives("Qwen/Qwen2.5-7B")]))


def cards(plan: Plan) -> list[str]:
    """Cards with a price that somebody listed and a known time, and the plan's own."""
    priced = [gpu.key for gpu in catalog.gpus() if gpu.price is not None]
    return list(dict.fromkeys([*priced, *([plan.gpu] if plan.gpu in known_cards() else [])]))


def known_cards() -> dict[str, str]:
    """Every card whose usable bytes are known: its key and its name."""
    return {gpu.key: gpu.name for gpu in catalog.gpus() if gpu.budget_bytes}


def border(rows: pd.DataFrame, field: str, unit: str) -> str:
    """Where the plan stops fitting, in a sentence; rows hold valid and invalid plans."""
    rows = rows[rows["valid"].astype(bool)].sort_values(field)
    if rows.empty:
        return "No value on this axis gives a valid plan."
    runs = rows["verdict"].astype(str).ne("out of memory")
    low, high = (_said(rows[field].iloc[place], unit) for place in (0, -1))
    if runs.all():
        return f"Runs at every valid value from {low[0]} to {high[1]}."
    if not runs.any():
        return f"Runs at no value from {low[0]} to {high[1]}."
    first, last = (_said(rows[field][runs].iloc[place], unit) for place in (0, -1))
    if runs.iloc[0]:
        return f"{MOST[field]}: **{last[1]}**."
    if runs.iloc[-1]:
        return f"Needs at least **{first[1]}**."
    return f"Runs from **{first[0]}** to **{last[1]}**."


def _said(value: int, unit: str) -> tuple[str, str]:
    """A value alone, and with its unit, which is one of them for 1."""
    alone = f"{value:,}"
    return alone, f"{alone} {ONE.get(unit, unit) if value == 1 else unit}"
