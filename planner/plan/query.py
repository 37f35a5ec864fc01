"""A plan as a link writes it: complete with every field, or short, as what differs from a preset.

A complete link has ``v`` and every field. A short one has ``v``, the fields that differ and, last,
a frozen preset, so that one that was cut off lacks it and says so. ``set`` names the fields that a
person chose; the others follow when the method or the framework changes. Where a complete link has
none, all are chosen. Either may carry ``calibration`` beside them, correction factors that someone
chose to apply, and ``benchmark``, shares of the card's peaks that someone measured; they are no
part of the plan.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlencode

from planner.plan import FIELDS, Plan
from planner.plan.chosen import differences
from planner.plan.factors import Factors, factors_to_text
from planner.plan.fieldtext import to_text
from planner.plan.migrations import VERSION
from planner.plan.plan import ROWS
from planner.plan.presets import nearest
from planner.speeds import Speeds, speeds_to_text

CHOSEN = "set"
"""Key of the fields that a person chose; not a field of a plan."""
CALIBRATION = "calibration"
"""Key of the correction factors; not a field of a plan."""
BENCHMARK = "benchmark"
"""Key of the shares that a benchmark measured; not a field of a plan."""
LINK = "link"
"""In place of a field, of problems that are of the link as a whole."""
PIN = "pin"
"""Key of a plan that is kept for comparing, once for each; see :mod:`planner.plan.pin`."""
WISH = "wish"
"""Key of what a search was asked for; see :mod:`planner.search.wish`."""
SHOWN = ("compare", "peak", PIN, WISH)
"""Keys of what a page shows beside its plan: none of them is the plan's, and nothing is wrong."""


def fields_of(version: int) -> tuple[str, ...]:
    """Fields that a complete link of this version has, in the order of today's."""
    return tuple(field for field in FIELDS if ROWS[field].since <= version)


def to_query(
    plan: Plan,
    preset: str = "",
    chosen: Collection[str] | None = None,
    calibration: Factors | None = None,
    benchmark: Speeds | None = None,
) -> dict[str, str]:
    """Every field, in canonical text. ``preset`` only remembers where the plan came from."""
    fields = {field: to_text(getattr(plan, field)) for field in FIELDS}
    return {**_head(preset, chosen), **fields, **_tail(calibration, benchmark)}


def to_short_query(
    plan: Plan, calibration: Factors | None = None, benchmark: Speeds | None = None
) -> dict[str, str]:
    """The nearest preset and the fields that differ from it."""
    preset = nearest(plan)
    changed = differences(dict(preset.plan), dict(plan))
    fields = {change.field: to_text(change.after) for change in changed}
    tail = _tail(calibration, benchmark)
    return {**_head(), **fields, **tail, "preset": preset.key}


def to_query_string(
    plan: Plan,
    *,
    short: bool = False,
    calibration: Factors | None = None,
    benchmark: Speeds | None = None,
) -> str:
    """The link's part after the question mark."""
    if short:
        return urlencode(to_short_query(plan, calibration, benchmark))
    return urlencode(to_query(plan, calibration=calibration, benchmark=benchmark))


def _head(preset: str = "", chosen: Collection[str] | None = None) -> dict[str, str]:
    named = {} if chosen is None else {CHOSEN: to_chosen(chosen)}
    return {"v": str(VERSION), **({"preset": preset} if preset else {}), **named}


def to_chosen(chosen: Collection[str]) -> str:
    """The names of chosen fields as a link has them."""
    return ",".join(field for field in FIELDS if field in chosen)


def _tail(calibration: Factors | None, benchmark: Speeds | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if calibration is not None:
        found[CALIBRATION] = factors_to_text(calibration)
    if benchmark is not None:
        found[BENCHMARK] = speeds_to_text(benchmark)
    return found
