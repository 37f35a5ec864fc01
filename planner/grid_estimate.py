"""The estimate of every plan of a grid at once: peaks, worst phase, verdict, seconds and dollars.

The terms, sums and formulas are those of :mod:`planner.estimate`; here numbers are arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from planner.cost import gpu_hours, price_of
from planner.estimate import MARGIN, phase_plans
from planner.footprint import OUTSIDE, Instant, trainers_own
from planner.formulas.growth import GROWN, most_growth
from planner.formulas.throughput import MODEL_FLOPS_UTILIZATION, TOKENS_PER_SECOND
from planner.grid import Grid
from planner.levels import Adder, Totals
from planner.numeric import Num, maximum, total, where
from planner.phases import engine
from planner.phases.phase import PhasePlan
from planner.phases.reference_cache import pass_seconds
from planner.phases.scene import Scene, scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.rules import valid
from planner.segments import Reserved, reserved
from planner.speeds import Speeds
from planner.timing.done import Done, done_of
from planner.timing.doubt import doubt_of
from planner.timing.phase import phase_terms
from planner.timing.step import spent, step_seconds

Array = np.ndarray[Any, Any]

UNKNOWN = float("nan")

WORDS = ("fits", "tight", "out of memory")


class Words(NamedTuple):
    """A column of words: the number of each row's word, below 0 where it has none."""

    codes: Array
    words: Sequence[str]


def judge(grid: Grid, speeds: Speeds | None = None) -> dict[str, Any]:
    """The columns of every plan of a grid."""
    facts = facts_of(grid, speeds)
    scene = scene_of(cast("Plan", grid), facts)  # it reads like one
    plans = phase_plans(scene)
    adder = Adder(grid.expandable_segments, total)
    sums = [[adder.totals(instant) for instant in phase.instants] for phase in plans]
    peaks = [_peak(grid, phase, each) for phase, each in zip(plans, sums, strict=True)]
    needed, kept = ([peak[name] for peak in peaks] for name in ("needed", "kept"))
    segments = reserved(scene.plan, plans, needed, kept, sums, facts.budget_bytes)
    growth = most_growth(scene.plan, [one.held for one in segments])
    worst = _Worst(grid, growth, facts.budget_bytes)
    columns = {}
    for number, (phase, peak, held) in enumerate(zip(plans, peaks, segments, strict=True)):
        columns[f"phase: {phase.name}"] = worst.meet(number, phase.rank, peak, held)
    found = worst.found()
    blocked = np.asarray(_blocked(scene, peaks))
    out = (worst.device > facts.budget_bytes) | grid.spread(blocked, bool)
    little = (worst.device > MARGIN * facts.budget_bytes) | (worst.high > facts.budget_bytes)
    code = np.where(out, 2, little)
    names = [phase.name for phase in plans]
    return {
        "valid": grid.spread(valid(grid), bool),
        "requested_bytes": found["requested"],
        "reserved_bytes": found["reserved"],
        "device_bytes": worst.device,
        "low_bytes": worst.low,
        "high_bytes": worst.high,
        "trainer_bytes": grid.spread(_own(plans, peaks), np.int64),
        "engine_bytes": grid.spread(_pool(scene), np.int64),
        "host_bytes": grid.spread(maximum(*(peak["host"] for peak in peaks)), np.int64),
        "budget_bytes": facts.budget_bytes,
        "verdict": Words(code, WORDS),
        "worst_phase": Words(found["number"], names),
        "trainer_phase": Words(grid.spread(_own_phase(plans, peaks), np.int8), names),
        **_money(grid, scene, _times(scene, plans), out),
        **columns,
    }


class _Worst:
    """The phase that makes the peak, plan by plan: :func:`planner.footprint.worst_of` on arrays."""

    def __init__(self, grid: Grid, growth: Num, card: Num) -> None:
        self._grid, self._growth, self._card = grid, growth, card
        self._size = int(np.prod(grid.shape, dtype=np.int64))
        self._highest: dict[str, Array] = {}
        self._maker: dict[str, Array] = {}
        self.low = self.high = np.zeros(self._size, dtype=np.int64)

    @property
    def device(self) -> Array:
        """The most device bytes of any phase."""
        return self._highest["device"]

    def meet(self, number: int, rank: str, peak: Mapping[str, Num], held: Reserved) -> Array:
        """Take a phase into account; returns its device bytes.

        ``peak`` is of its own instants, ``held`` what it reserves.
        """
        low, reserved, high = held.total
        outside, own = peak["outside"], held.own.centre
        self.low = np.maximum(self.low, self._spread(low + outside - peak["below"]))
        most = high + outside + peak["above"]
        if held.held is not None:
            size = {"most": self._growth, "card": self._card, "reached": most}
            most = most + GROWN.value(counted=1, **size)
        self.high = np.maximum(self.high, self._spread(most))
        sizes = {
            "device": reserved + outside,
            "needed": own,
            "own": own + outside,
            "allocated": peak["allocated"],
            "requested": peak["requested"],
            "reserved": reserved,
        }
        figures = {name: self._spread(size) for name, size in sizes.items()}
        figures["number"] = np.full(self._size, number, dtype=np.int8)
        self._highest = _better(self._highest, figures, "device", "allocated")
        if rank == "trainer":
            self._maker = _better(self._maker, figures, "needed")
        return figures["device"]

    def _spread(self, size: Num) -> Array:
        return self._grid.spread(size, np.int64)

    def found(self) -> dict[str, Array]:
        """The figures of the worst phase, and its number."""
        return _better(self._highest, self._maker, "own", "allocated")


def _better(one: dict[str, Array], other: dict[str, Array], *names: str) -> dict[str, Array]:
    """Of two phases the one with more of the first name, and where they tie of the second."""
    if not one or not other:
        return one or other
    more, tied = np.zeros((), bool), np.ones((), bool)
    for name in names:
        more = more | (tied & (other[name] > one[name]))
        tied = tied & (other[name] == one[name])
    return {name: np.where(more, other[name], sizes) for name, sizes in one.items()}


OF_PEAK = ("requested", "allocated", "outside", "kept")
"""Totals of the instant that owns a phase's peak."""


def _at_peak(instant: Instant, sums: Totals) -> dict[str, Num]:
    """What counts of an instant that owns a phase's peak; by how much it may be less and more."""
    doubtful = [
        term for term in instant.everything if term.low is not None and term.category in OUTSIDE
    ]
    return {
        **{name: getattr(sums, name) for name in OF_PEAK},
        "below": total([term.bytes - term.low for term in doubtful]),
        "above": total([term.high - term.bytes for term in doubtful]),
    }


def _peak(plan: Grid, phase: PhasePlan, found: Sequence[Totals]) -> dict[str, Num]:
    """Totals of the instant that owns a phase's peak, plan by plan; the most ever reserved."""
    best = found[0]
    own = _at_peak(phase.instants[0], best)
    for instant, sums in zip(phase.instants[1:], found[1:], strict=True):
        higher = sums.peak > own["requested"] + own["outside"]
        more = _at_peak(instant, sums)
        own = {name: np.where(higher, more[name], value) for name, value in own.items()}
    device = maximum(*(sums.device for sums in found)) if len(found) > 1 else best.device
    return {
        **own,
        "needed": device - own["outside"],
        "host": maximum(*(sums.host for sums in found)) if len(found) > 1 else best.host,
    }


def _own(plans: Sequence[PhasePlan], peaks: Sequence[Mapping[str, Num]]) -> Num:
    pairs = zip(plans, peaks, strict=True)
    return trainers_own((phase.rank, peak["requested"]) for phase, peak in pairs)


def _own_phase(plans: Sequence[PhasePlan], peaks: Sequence[Mapping[str, Num]]) -> Num:
    """The number of the phase that makes the trainer's own peak."""
    trainers = [number for number, phase in enumerate(plans) if phase.rank == "trainer"]
    which: Num = trainers[0]
    most = peaks[which]["requested"]
    for number in trainers[1:]:
        size = peaks[number]["requested"]
        which, most = where(size > most, number, which), maximum(most, size)
    return which


def _pool(scene: Scene) -> Num:
    held = engine.held(scene, "rollout")
    return total([term.bytes for term in held if term.category == "engine" and not term.host])


def _blocked(scene: Scene, peaks: Sequence[Mapping[str, Num]]) -> Num:
    blocked: Num = np.asarray(engine.shortfall_bytes(scene)) > 0
    limit = scene.plan.host_ram_per_node
    if limit:
        blocked = blocked | (np.asarray(maximum(*(peak["host"] for peak in peaks))) > limit)
    return blocked


class _Times(NamedTuple):
    """Seconds of a step and of its updates, and what they get done; NaN when unknown."""

    step: Num
    updates: Num
    done: Done


def _times(scene: Scene, plans: Sequence[PhasePlan]) -> _Times:
    done = done_of(scene, plans)
    phases = [
        spent(phase.name, phase.rank, phase_terms(scene, phase))
        for phase in plans
        if phase.per_step
    ]
    step = step_seconds(scene.plan.rollout_overlap, phases)
    updates = [one.seconds for one in phases if one.name in done.updates]
    known = [seconds for seconds in updates if seconds is not None]
    return _Times(
        UNKNOWN if step is None else step,
        sum(known) if known and len(known) == len(updates) else UNKNOWN,
        done,
    )


def _money(grid: Grid, scene: Scene, times: _Times, out: Array) -> dict[str, Array]:
    """What steps and runs take and yield; no hours and no dollars of those that are ``out``."""
    plan, doubt, done = scene.plan, doubt_of(scene), times.done
    peak, price = scene.facts.gpu.flops_per_second(plan.dtype), price_of(plan).per_gpu_hour
    passes = pass_seconds(scene) or (UNKNOWN, UNKNOWN)
    hours = np.where(out, UNKNOWN, grid.spread(gpu_hours(plan, times.step, *passes)[1], np.float64))
    seconds = grid.spread(times.step, np.float64)
    usd = hours * (UNKNOWN if price is None else price)
    mfu: Num = UNKNOWN
    if peak is not None:
        mfu = MODEL_FLOPS_UTILIZATION(
            model_flops=done.model_flops, update_seconds=times.updates, peak_flops_per_second=peak
        )
    rate = TOKENS_PER_SECOND(tokens=done.tokens, step_seconds=times.step, gpus=plan.gpus)
    return {
        "step_seconds": seconds,
        "low_step_seconds": seconds * doubt.low,
        "high_step_seconds": seconds * doubt.high,
        "tokens_per_second_per_gpu": grid.spread(rate, np.float64),
        "mfu": grid.spread(mfu, np.float64),
        "gpu_hours_run": hours,
        "usd_run": usd,
        "low_usd_run": usd * doubt.low,
        "high_usd_run": usd * doubt.high,
    }
