"""The estimate of every plan of many grids at once: peaks, verdict, seconds and dollars.

The terms, sums and formulas are those of :mod:`planner.estimate`; here numbers are arrays, a row a
combination of choices, one column a plan of its mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from planner.footprint import number_of_worst, trainers_own
from planner.formulas.growth import EXPERTS_LEFT, GROWN, most_growth
from planner.numeric import Num, chosen, maximum, number_of_most, where
from planner.plan import Plan
from planner.sweeps.combinations import UNKNOWN, Combination
from planner.sweeps.grid import Mesh
from planner.sweeps.stack import Array, Stack
from planner.totals.limits import WORDS, number_of_word
from planner.totals.peaks import Peak
from planner.totals.segments import Reserved, in_process, reserved

SAID = (*WORDS, "incomplete")
"""The last is for people alone: plans are ranked by the others, whatever is left out of them."""

PASS = 50_000
"""Plans that are judged in one pass: arrays of more have to be got from the system each time."""


class Words(NamedTuple):
    """A column of words: the number of each row's word, below 0 where it has none."""

    codes: Array
    words: Sequence[str]


class Judged(NamedTuple):
    """Some combinations of a sweep: which, and their columns, a row a combination."""

    numbers: Sequence[int]
    columns: Mapping[str, Any]


def judged(
    combinations: Sequence[Combination | None], mesh: Mesh, phase_seconds: bool = False
) -> Iterator[Judged]:
    """The columns of every plan of all combinations, those of one kind together.

    ``phase_seconds`` gives each phase's seconds a column too, and both ends of every figure that
    seconds come to.
    """
    kinds: dict[Any, dict[int, Combination]] = {}
    for number, one in enumerate(combinations):
        if one is not None:
            kinds.setdefault(one.kind, {})[number] = one
    most = max(PASS // max(mesh.rows, 1), 1)
    for alike in kinds.values():
        numbers, stack = [*alike], Stack([*alike.values()], len(mesh.shape))
        for start in range(0, len(numbers), most):
            of = slice(start, start + most)
            yield Judged(numbers[of], _columns(stack, of, mesh, phase_seconds))


Spread = Callable[[Num, Any], Array]
"""A number, or a part of the mesh of each combination, as a row of plans per combination."""


def _columns(stack: Stack, of: slice, mesh: Mesh, phase_seconds: bool) -> dict[str, Any]:
    some = stack.combinations[of]
    grid, slots, spread = some[0].grid, some[0].slots, partial(mesh.spread, count=len(some))

    def figure(name: str) -> Num:
        return stack.figure(name, of)

    peaks, card = stack.peaks(of), figure("budget_bytes")
    # What the phases of a kind hold is decided by what makes it a kind.
    trains = [in_process(slot.rank, slot.kind) for slot in slots]
    plan = cast("Plan", grid)
    segments = reserved(plan, trains, peaks, card)
    growth = most_growth(plan, [one.held for one in segments])
    experts = {name: figure(name) for name in EXPERTS_LEFT.inputs if name in some[0].figures}
    phases = [
        _phase(spread, peak, held, growth, experts, card)
        for peak, held in zip(peaks, segments, strict=True)
    ]
    of_phases = {name: [phase[name] for phase in phases] for name in phases[0]}
    ranks, names = [slot.rank for slot in slots], [slot.kind.name for slot in slots]
    which = ("device", "allocated", "inherited", "reserved")
    own = [(rank, peak.requested) for rank, peak in zip(ranks, peaks, strict=True)]
    worst = number_of_worst(ranks, **{name: of_phases[name] for name in which})
    device, low, high = (np.maximum.reduce(of_phases[name]) for name in ("device", "low", "high"))
    host, room = maximum(*(peak.host for peak in peaks)), figure("host_limit_bytes")
    hosted = maximum(*(peak.host + peak.hosted for peak in peaks))
    budget = spread(card, np.int64)
    verdict = maximum(
        number_of_word(device, high, budget),
        spread(number_of_word(host, hosted, room), np.int8),
        spread(where(figure("blocked"), WORDS.index("out of memory"), 0), np.int8),
    )
    money = _money(spread, figure, verdict == WORDS.index("out of memory"))
    more: dict[str, Array] = {}
    if phase_seconds:
        for name in (f"seconds: {each}" for each in names):
            seconds = figure(name) if name in some[0].figures else UNKNOWN
            more[name] = spread(seconds, np.float64)
        more |= dict(_bounds(spread, figure, money))
    return {
        "valid": spread(figure("valid"), bool),
        "incomplete": spread(figure("incomplete"), bool),
        "requested_bytes": chosen(worst, of_phases["requested"]),
        "reserved_bytes": chosen(worst, of_phases["reserved"]),
        "device_bytes": device,
        "low_bytes": low,
        "high_bytes": high,
        "trainer_bytes": spread(trainers_own(own), np.int64),
        "engine_bytes": spread(figure("engine_bytes"), np.int64),
        "host_bytes": spread(host, np.int64),
        "budget_bytes": budget,
        "verdict": Words(verdict.astype(np.int8), SAID),
        "worst_phase": Words(worst.astype(np.int8), names),
        "trainer_phase": Words(spread(_own_phase(own), np.int8), names),
        **money,
        **more,
        **{f"phase: {name}": size for name, size in zip(names, of_phases["device"], strict=True)},
    }


def _phase(
    spread: Spread, peak: Peak, held: Reserved, growth: Num, experts: Mapping[str, Num], card: Num
) -> dict[str, Array]:
    """Bytes of one phase, of its own instants' ``peak`` and of what is ``held``, plan by plan."""
    most = held.total.high + peak.outside + peak.above
    if held.held is not None:
        most = most + GROWN.value(counted=1, most=growth, card=card, reached=most)
        if experts:
            most = most + EXPERTS_LEFT.value(counted=1, **experts, card=card, reached=most)
    figures = {
        "device": held.total.centre + peak.outside,
        "low": held.total.low + peak.outside - peak.below,
        "high": most,
        "allocated": peak.allocated,
        "inherited": held.inherited.centre,
        "requested": peak.requested,
        "reserved": held.total.centre,
    }
    return {name: spread(size, np.int64) for name, size in figures.items()}


def _own_phase(own: Sequence[tuple[str, Num]]) -> Num:
    """The number of the phase that makes the trainer's own peak, of each one's rank and bytes."""
    trainers = [number for number, (rank, _) in enumerate(own) if rank == "trainer"]
    return chosen(number_of_most([own[number][1:] for number in trainers]), trainers)


def _bounds(
    spread: Spread, figure: Callable[[str], Num], money: Mapping[str, Array]
) -> Iterator[tuple[str, Array]]:
    """Both ends of what steps yield and cost, as uncertain as a step, or as an update."""
    low, high, update_low, update_high = (
        spread(figure(name), np.float64)
        for name in ("low", "high", "update_low", "update_high")
    )
    for name in ("gpu_hours_per_step", "usd_per_step"):
        yield f"low_{name}", money[name] * low
        yield f"high_{name}", money[name] * high
    rate = "tokens_per_second_per_gpu"
    yield f"low_{rate}", money[rate] / high
    yield f"high_{rate}", money[rate] / low
    for name in ("mfu", "hfu"):  # no card does more than its peak
        used = money[name]
        yield f"low_{name}", used / update_high
        yield f"high_{name}", np.maximum(used, np.minimum(used / update_low, 1.0))


def _money(spread: Spread, figure: Callable[[str], Num], out: Array) -> dict[str, Array]:
    """What steps and runs take and yield; no hours and no dollars of those that are ``out``."""
    seconds, step_hours, hours, low_hours, high_hours, rate, mfu, hfu, low, high, price = (
        spread(figure(name), np.float64)
        for name in (
            "step_seconds",
            "gpu_hours_per_step",
            "gpu_hours_run",
            "low_gpu_hours_run",
            "high_gpu_hours_run",
            "tokens_per_second_per_gpu",
            "mfu",
            "hfu",
            "low",
            "high",
            "usd_per_gpu_hour",
        )
    )
    step_hours, hours, low_hours, high_hours = (
        np.where(out, UNKNOWN, each) for each in (step_hours, hours, low_hours, high_hours)
    )
    between = ("between_seconds", "low_between_seconds", "high_between_seconds")
    return {
        "step_seconds": seconds,
        **{name: spread(figure(name), np.float64) for name in between},
        "low_step_seconds": seconds * low,
        "high_step_seconds": seconds * high,
        "tokens_per_second_per_gpu": rate,
        "mfu": mfu,
        "hfu": hfu,
        "gpu_hours_per_step": step_hours,
        "usd_per_step": step_hours * price,
        "gpu_hours_run": hours,
        "low_gpu_hours_run": low_hours,
        "high_gpu_hours_run": high_hours,
        "usd_run": hours * price,
        "low_usd_run": low_hours * price,
        "high_usd_run": high_hours * price,
    }
