"""GRADE's step of a plan, run for real on the CPU: most live bytes of every phase."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch

from live_bytes import LiveBytes
from planner.methods.grade.step import step
from planner.plan import Plan
from planner.steps.run import build
from planner.steps.stage import Stage


def real_phases(
    plan: Plan, config: Mapping[str, Any]
) -> tuple[dict[str, int], dict[str, Counter[tuple[str, int]]]]:
    """Peaks of the second of two steps, and what was live at them, by phase."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tracker = LiveBytes()
    peaks: dict[str, int] = {}
    live: dict[str, Counter[tuple[str, int]]] = {}

    def on_phase(name: str, begins: bool) -> None:
        if begins:
            tracker.reset_peak()
        elif tracker.peak >= peaks.get(name, 0):
            peaks[name], live[name] = tracker.peak, tracker.at_peak

    with warnings.catch_warnings(), tracker:
        warnings.simplefilter("ignore")
        run = build(plan, Stage(on_phase=on_phase), {"policy": config, "reward": config})
        step(run)
        peaks.clear()
        step(run)
    return peaks, live
