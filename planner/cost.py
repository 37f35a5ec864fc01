"""Time and money of a whole run, from an estimate's step time and an hourly price."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from planner.footprint import Footprint
from planner.plan.facts import facts_of
from planner.units import read_bytes, read_seconds, read_usd

OLD_AFTER_DAYS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run costs; None where the price or the time is unknown.

    A run's hours and dollars have a cached reference's pass in them: before the run, or in each
    step on other GPUs, as many of the same card for as long as it takes.
    """

    usd_per_step: float | None
    usd_run: float | None
    hours_run: float | None
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
    does not run has no hours and no cost.
    """
    plan = footprint.plan
    listed = facts_of(plan).gpu.price
    low = high = price = plan.price_per_gpu_hour or None
    source, date, old = "typed in", "", False
    if price is None and listed is not None:
        low, high = listed.usd_per_hour_low, listed.usd_per_hour_high
        price = (low + high) / 2
        source, date = listed.source, listed.date
        old = _is_old(listed.date, today or dt.date.today())
    elif price is None:
        source = "nobody has listed a price for this card"
    hours = None
    if footprint.step_seconds is not None and footprint.verdict.word != "out of memory":
        hours = footprint.step_seconds * plan.steps / 3600
    run = None if hours is None or price is None else hours * price * plan.gpus
    before, elsewhere = _pass_hours(footprint)
    scoring = price and (before + elsewhere) * price * (plan.gpus - plan.rollout_gpus)
    in_steps = price and elsewhere * price * (plan.gpus - plan.rollout_gpus)
    return Cost(
        usd_per_step=None if run is None else (run + (in_steps or 0)) / plan.steps,
        usd_run=None if run is None else run + (scoring or 0),
        hours_run=None if hours is None else hours + before,
        usd_reference=None if run is None else scoring,
        price_per_gpu_hour=price,
        price_low=low,
        price_high=high,
        price_source=source,
        price_date=date,
        price_is_old=old,
    )


def _pass_hours(footprint: Footprint) -> tuple[float, float]:
    """Hours of a cached reference's passes: before the run, and on other GPUs in its steps.

    A pass takes as long as the card's scoring does, whose time is known where a step's is.
    """
    cache = footprint.reference_cache
    if cache is None or cache.seconds is None:
        return 0.0, 0.0
    hours = cache.seconds / 3600
    return (0.0, hours * footprint.plan.steps) if cache.each_step else (hours, 0.0)


def reference_words(footprint: Footprint, cost: Cost) -> str:
    """What a cached reference costs beside the step's memory; empty where the plan has none."""
    cache = footprint.reference_cache
    if cache is None:
        return ""
    time = "in a time not known" if cache.seconds is None else f"in {read_seconds(cache.seconds)}"
    paid = cost.usd_reference
    usd = "" if paid is None else f", {read_usd(paid)} of the run's cost"
    if cache.each_step:
        return (
            f"Responses are new in each step: other GPUs score the {cache.responses:,} {time}, "
            f"which the step waits for{usd}. Nothing is cached beforehand."
        )
    read = f"{read_bytes(cache.step_bytes)} of it in each step"
    if footprint.step_seconds:
        rate = read_bytes(cache.step_bytes / footprint.step_seconds)
        read += f", in time where the disk gives {rate} a second"
    return (
        f"Before the run the reference scores up to {cache.responses:,} responses {time}{usd}, and "
        f"{read_bytes(cache.disk_bytes)} wait on a disk: {read} (how fast it is, nobody has said)."
    )


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
