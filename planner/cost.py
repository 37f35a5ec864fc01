"""Time and money of a whole run, from an estimate's step time and an hourly price."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from planner.catalog.efficiencies import efficiencies
from planner.footprint import Factors, Footprint
from planner.formulas.throughput import DOLLARS, RUN_GPU_HOURS, STEP_GPU_HOURS
from planner.numeric import Num
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.references import ReferenceCache
from planner.units import read_bytes, read_count, read_seconds, read_seconds_between, read_usd

OLD_AFTER_DAYS = 60
NOTICED_SECONDS = 1e-3
UNNOTICED = "under a millisecond"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run costs; None where the price or the time is unknown.

    A run's hours and dollars have a cached reference's pass in them: before the run, or in each
    step on other GPUs, as many of the same card for as long as it takes; and the checkpoints and
    validations that the plan has between its steps. Its ``low_`` and ``high_`` figures are those of
    its parts together (:class:`Run`); the price's own range is beside them.
    """

    gpu_hours_per_step: float | None
    gpu_hours_run: float | None
    usd_per_step: float | None
    usd_run: float | None
    hours_run: float | None
    low_hours_run: float | None
    high_hours_run: float | None
    low_gpu_hours_run: float | None
    high_gpu_hours_run: float | None
    low_usd_run: float | None
    high_usd_run: float | None
    usd_reference: float | None
    """Of ``usd_run``, that pass; 0 where no reference is cached."""
    price_per_gpu_hour: float | None
    price_low: float | None
    price_high: float | None
    price_source: str
    price_date: str
    price_is_old: bool


def cost(footprint: Footprint, *, today: dt.date | None = None) -> Cost:
    """Cost of the footprint's plan; a price typed into the plan wins over the catalog's.

    The catalog's price is the middle of its low and high figures. ``today`` decides
    whether a price is older than 60 days; a date that cannot be read counts as old. A plan that
    does not run, or of which a part is left out, has no hours and no cost.
    """
    plan, runs = footprint.plan, footprint.priced
    asked = price_of(plan)
    before, elsewhere = pass_seconds(footprint.reference_cache)
    low, middle, high = _ends_of(footprint) if runs else (UNKNOWN,) * 3
    low_hours, hours, high_hours = (run_hours(*one[:2], plan.steps) for one in (low, middle, high))
    pass_hours = (before + plan.steps * elsewhere) * (plan.gpus - plan.rollout_gpus) / 3600
    return Cost(
        gpu_hours_per_step=middle.step_gpu_hours,
        gpu_hours_run=middle.gpu_hours,
        usd_per_step=_paid(middle.step_gpu_hours, asked.per_gpu_hour),
        usd_run=_paid(middle.gpu_hours, asked.per_gpu_hour),
        hours_run=hours,
        low_hours_run=low_hours,
        high_hours_run=high_hours,
        low_gpu_hours_run=low.gpu_hours,
        high_gpu_hours_run=high.gpu_hours,
        low_usd_run=_paid(low.gpu_hours, asked.per_gpu_hour),
        high_usd_run=_paid(high.gpu_hours, asked.per_gpu_hour),
        usd_reference=_paid(None if hours is None else pass_hours, asked.per_gpu_hour),
        price_per_gpu_hour=asked.per_gpu_hour,
        price_low=asked.low,
        price_high=asked.high,
        price_source=asked.source,
        price_date=asked.date,
        price_is_old=bool(asked.date) and _is_old(asked.date, today or dt.date.today()),
    )


class Run(NamedTuple):
    """What steps and a run take at one end; numbers, or arrays of a sweep.

    A run is as uncertain as its parts: what a step takes scales as published steps did, a
    checkpoint as disks do. All are at one end together, as a slow host or card is slow in all.
    """

    step_seconds: Num
    between_seconds: Num
    """Of all that lies before and between the steps."""
    step_gpu_hours: Num
    gpu_hours: Num


UNKNOWN = Run(None, None, None, None)
ENDS: Mapping[str, Callable[[Any], float]] = {
    "low": attrgetter("low"),
    "": lambda doubt: 1.0,
    "high": attrgetter("high"),
}
"""By what seconds are multiplied at each end, given their doubt; nothing between them."""
Occasion = tuple[Num, Num, Factors | None]
"""How often the run has it, the seconds of one, and how far those may be off."""


def run_at(
    end: str,
    plan: Plan,
    step_seconds: Num,
    passes: tuple[Num, Num],
    occasions: Iterable[Occasion],
    doubt: Factors | None,
) -> Run:
    """A run at one of :data:`ENDS`; ``passes`` as :func:`pass_seconds` gives them."""
    by = ENDS[end](doubt)
    before, elsewhere = (each * by for each in passes)
    between = before + sum(count * each * ENDS[end](own) for count, each, own in occasions)
    step, run = gpu_hours(plan, step_seconds * by, between, elsewhere)
    return Run(step_seconds * by, between, step, run)


def run_hours(step_seconds: Any, between_seconds: Any, steps: int) -> Any:
    """Hours of a run: a number, or an array of them; None where nobody knows."""
    return None if step_seconds is None else (step_seconds * steps + between_seconds) / 3600


def _ends_of(footprint: Footprint) -> Iterator[Run]:
    """The least, the estimate and the most; unknown where nobody knows."""
    doubt = footprint.doubt
    occasions = [
        (one.occasions, one.seconds, one.doubt or doubt) for one in footprint.occasional
    ]
    for end in ENDS:
        if footprint.step_seconds is None or (end and doubt is None):
            yield UNKNOWN
        else:
            passes, step = pass_seconds(footprint.reference_cache), footprint.step_seconds
            yield run_at(end, footprint.plan, step, passes, occasions, doubt)


class HourlyPrice(NamedTuple):
    """Dollars of one GPU for an hour; None where nobody has said."""

    per_gpu_hour: float | None
    low: float | None
    high: float | None
    source: str
    date: str = ""


def price_of(plan: Plan) -> HourlyPrice:
    """The price typed into a plan (or a sweep's grid), or else the middle of the catalog's."""
    own, listed = plan.price_per_gpu_hour or None, facts_of(plan).gpu.price
    if own is not None:
        return HourlyPrice(own, own, own, "typed in")
    if listed is None:
        return HourlyPrice(None, None, None, "nobody has listed a price for this card")
    low, high = listed.usd_per_hour_low, listed.usd_per_hour_high
    return HourlyPrice((low + high) / 2, low, high, listed.source, listed.date)


def gpu_hours(plan: Plan, seconds: Num, between: Num, elsewhere: Num) -> tuple[Num, Num]:
    """GPU-hours of a step and of the run; arrays where the plan is a sweep's grid.

    Args:
        plan: whose GPUs and steps they are.
        seconds: of a step.
        between: seconds before and between the steps (:func:`seconds_between_steps`).
        elsewhere: a cached reference's pass in each step, on as many other GPUs as train.
    """
    training = plan.gpus - plan.rollout_gpus
    step = STEP_GPU_HOURS(
        step_seconds=seconds, gpus=plan.gpus, elsewhere_seconds=elsewhere, training_gpus=training
    )
    run = RUN_GPU_HOURS(
        steps=plan.steps, step_gpu_hours=step, between_seconds=between, gpus=plan.gpus
    )
    return step, run


def _paid(hours: float | None, price: float | None) -> float | None:
    if hours is None or price is None:
        return None
    return float(DOLLARS(gpu_hours=hours, usd_per_gpu_hour=price))


def pass_seconds(cache: ReferenceCache | None) -> tuple[float, float]:
    """Seconds of a cached reference's passes: before the run, and on other GPUs in each step.

    A pass takes as long as the card's scoring does, whose time is known where a step's is.
    """
    if cache is None or cache.seconds is None:
        return 0.0, 0.0
    return (0.0, cache.seconds) if cache.each_step else (cache.seconds, 0.0)


def seconds_between_steps(footprint: Footprint) -> float:
    """Seconds of the run that no step has: a cached reference's pass, checkpoints, validations."""
    before, _ = pass_seconds(footprint.reference_cache)
    return before + sum(one.occasions * (one.seconds or 0.0) for one in footprint.occasional)


def between_words(footprint: Footprint) -> str:
    """What checkpoints and validations take of the run; empty where the plan has none."""
    step, plan, said = footprint.step_seconds, footprint.plan, []
    if step is None or not footprint.priced:
        return ""
    for phase in footprint.occasional:
        each = phase.seconds or 0.0
        share = each * phase.occasions / (step * plan.steps + seconds_between_steps(footprint))
        took = read_seconds_between(each, phase.low_seconds, phase.high_seconds)
        said.append(f"{read_count(phase.occasions, phase.name)} of {took}, {share:.1%} of the run")
    if not said:
        return ""
    waits = any(one.kind.waits_for_disk for one in footprint.occasional)
    disk = f" {_assumed_disk()}" if waits and not plan.disk_bytes_per_second else ""
    return f"Between its steps: {'; '.join(said)}.{disk}"


def _assumed_disk() -> str:
    rate = efficiencies()["disk-bytes-per-second"].of(None)
    low, middle, high = (read_bytes(each) for each in (rate.low, rate.typical, rate.high))
    return (
        f"A node's disk is taken to move {middle} a second ({low} to {high}); "
        "disk_bytes_per_second says what yours does."
    )


def reference_words(footprint: Footprint, cost: Cost) -> str:
    """What a cached reference costs beside the step's memory; empty where the plan has none."""
    cache = footprint.reference_cache
    if cache is None:
        return ""
    time = "in a time not known" if cache.seconds is None else f"in {read_seconds(cache.seconds)}"
    paid = cost.usd_reference if footprint.priced else None
    usd = "" if paid is None else f", {read_usd(paid)} of the run's cost"
    if cache.each_step:
        return (
            f"Responses are new in each step: other GPUs score the {cache.responses:,} responses "
            f"{time} while the step waits{usd}. Nothing is cached beforehand."
        )
    read = f"each step reads {read_bytes(cache.step_bytes)} of them"
    if cache.read_seconds is not None:
        read += f" in {_reading(footprint.plan, cache.read_seconds)}"
    return (
        f"Before the run the reference scores up to {cache.responses:,} responses {time}{usd}, and "
        f"stores its outputs on a disk ({read_bytes(cache.disk_bytes)}); {read}."
    )


def _reading(plan: Plan, seconds: float) -> str:
    """Seconds within what disks give where nobody says; those nobody would notice in short."""
    if plan.disk_bytes_per_second:
        return UNNOTICED if seconds < NOTICED_SECONDS else read_seconds(seconds)
    return f"{_of_any_disk(seconds)}; the disk's rate is not set"


def _of_any_disk(seconds: float) -> str:
    best, worst = efficiencies()["disk-bytes-per-second"].spread()
    if seconds * worst < NOTICED_SECONDS:
        return UNNOTICED
    return read_seconds_between(seconds, seconds * best, seconds * worst)


def price_words(cost: Cost) -> str:
    """What the price is and what it rests on."""
    if cost.price_per_gpu_hour is None:
        return "nobody has listed a price for this card"
    hourly = f"{read_usd(cost.price_per_gpu_hour)} per GPU-hour"
    if not cost.price_date:
        return f"{hourly}, typed in"
    old = f", older than {OLD_AFTER_DAYS} days" if cost.price_is_old else ""
    return f"{hourly}, middle of the list prices of {cost.price_date}{old}"


def _is_old(text: str, today: dt.date) -> bool:
    """Whether a date such as ``2026-05`` or ``2024-12 to 2026-06`` lies over 60 days back."""
    found = re.findall(r"(20\d\d)-(\d\d)(?:-(\d\d))?", text)
    if not found:
        return True
    year, month, day = max(found)
    return (today - dt.date(int(year), int(month), int(day or 1))).days > OLD_AFTER_DAYS
