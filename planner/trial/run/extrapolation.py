"""From measurements of two shallow models to the whole one, phase by phase. No torch.

Live bytes at a fixed instant are a straight line in the depth; a phase's peak is not, since which
instant is the highest may change with the depth. The dry run knows the instants of all three
depths: where the same one is the highest, what was measured beyond the dry run is led on as a
straight line; where it is not, the dry run's figure is scaled as the deeper measurement was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.plan import Plan
from planner.trial.ask.footprints import LEVELS, FootprintFigures, PhaseFigures, rates
from planner.trial.run import cadence

BYTES = (*LEVELS, "active_bytes", "host_bytes")
SECONDS = ("seconds", "first_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """One depth: the dry run's figures with the instants of its peaks, and what was measured."""

    layers: int
    predicted: FootprintFigures
    instants: Mapping[str, str]
    """Of each phase: operator and place, counted from the nearer end of the layers."""
    measured: FootprintFigures | None = None


def extrapolated(
    plan: Plan, low: Depth, high: Depth, full: Depth
) -> tuple[FootprintFigures, tuple[str, ...]]:
    """The whole model's figures, and notes on phases that are led there less directly.

    Args:
        plan: the whole model's, for what is counted from it.
        low: the shallower model that ran.
        high: the deeper one.
        full: the whole model's dry run.
    """
    assert low.measured is not None and high.measured is not None
    phases, moved, flat = [], [], []
    for deeper in high.measured.phases:
        shallower = low.measured.phase(deeper.name)
        if shallower is None:
            continue
        names = {depth.instants.get(deeper.name) for depth in (low, high, full)}
        same = len(names) == 1 and None not in names
        if not same:
            moved.append(deeper.name)
        found: dict[str, float | None] = {
            field: _bytes(field, deeper.name, shallower, deeper, (low, high, full), same)
            for field in BYTES
        }
        for field in SECONDS:
            one, two = getattr(shallower, field), getattr(deeper, field)
            led = _line(low.layers, one, high.layers, two, full.layers)
            if led is not None and led < two:
                led = two
                flat.append(deeper.name)
            found[field] = led
        phases.append(_phase(plan, deeper, found))
    notes = []
    if moved:
        notes.append(
            f"In {', '.join(moved)} the peak at full depth comes at another instant than in the "
            "runs, so the dry run's figure is scaled by measured ÷ predicted of the deeper run."
        )
    if flat:
        notes.append(
            f"In {', '.join(dict.fromkeys(flat))} more layers took no more time, so the time of "
            "the deeper run is used for the whole model."
        )
    whole = {"plan": plan.model_dump(), "phases": tuple(phases)}
    return high.measured.model_copy(update=whole), tuple(notes)


def _bytes(
    field: str,
    name: str,
    shallower: PhaseFigures,
    deeper: PhaseFigures,
    depths: tuple[Depth, Depth, Depth],
    same: bool,
) -> int | None:
    low, high, full = depths
    one, two = getattr(shallower, field), getattr(deeper, field)
    said = [_said(depth, name, field) for depth in depths]
    if one is None or two is None:
        return None
    if None in said:
        line = _line(low.layers, one, high.layers, two, full.layers)
        return None if line is None else max(round(line), 0)
    of_low, of_high, of_full = (size or 0 for size in said)
    if same or not of_high:
        beyond = _line(low.layers, one - of_low, high.layers, two - of_high, full.layers)
        return max(round(of_full + (beyond or 0)), 0)
    return round(of_full * float(two) / of_high)


def _said(depth: Depth, name: str, field: str) -> int | None:
    """The dry run's figure; of the host it knows offloaded tensors, not the process."""
    if field == "host_bytes":
        return None
    phase = depth.predicted.phase(name)
    value: int | None = None if phase is None else getattr(phase, field)
    return value


def _line(low: int, one: float | None, high: int, two: float | None, full: int) -> float | None:
    """The value at ``full`` of the straight line through two points."""
    if one is None or two is None:
        return None
    return one + (two - one) * (full - low) / (high - low)


def _phase(plan: Plan, deeper: PhaseFigures, found: Mapping[str, float | None]) -> PhaseFigures:
    work = rates(
        found["seconds"],
        tokens=cadence.step_tokens(plan, deeper.name),
        flops=cadence.step_flops(plan, deeper.name),
    )
    unknown = {"device_before_bytes": None, "device_after_bytes": None}
    return deeper.model_copy(update={**found, **work, **unknown})
