"""Time and money of a whole run, from an estimate's step time and an hourly price."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from planner.footprint import Footprint
from planner.plan.facts import facts_of
from planner.units import read_usd

OLD_AFTER_DAYS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run costs; None where the price or the time is unknown."""

    usd_per_step: float | None
    usd_run: float | None
    hours_run: float | None
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
    return Cost(
        usd_per_step=None if run is None else run / plan.steps,
        usd_run=run,
        hours_run=hours,
        price_per_gpu_hour=price,
        price_low=low,
        price_high=high,
        price_source=source,
        price_date=date,
        price_is_old=old,
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
