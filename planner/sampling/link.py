"""A sampling plan as a link's query, and back: complete, ``v=1`` and every field.

Reading never raises for what a link holds: whatever is wrong comes back as a
:class:`~planner.problem.Problem`, and the rest is used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode

from planner.linktext import short
from planner.plan.link import once_each
from planner.problem import Problem, best, meant
from planner.sampling.plan import FIELDS, SamplingPlan, remedy, try_sampling_plan

VERSION = "1"
MAX_CHARACTERS = 8 * 1024
MAX_KEYS = 60
INTEGER = re.compile(r"[0-9]{1,17}")
NUMBERS = frozenset(
    name for name, info in SamplingPlan.model_fields.items() if info.annotation is int
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingReading:
    """What a link turned out to say; ``plan`` is None only when nothing usable is left."""

    plan: SamplingPlan | None
    problems: tuple[Problem, ...] = ()


def to_query(plan: SamplingPlan) -> dict[str, str]:
    """The version and every field, in canonical text."""
    return {"v": VERSION, **{field: str(getattr(plan, field)) for field in FIELDS}}


def to_query_string(plan: SamplingPlan) -> str:
    """The link's part after the question mark."""
    return urlencode(to_query(plan))


def from_query_string(text: str) -> SamplingReading:
    """Reads a query string or a whole link; never raises for what it holds."""
    query = text.strip().partition("#")[0]
    if "?" in query:
        query = query.partition("?")[2]
    if len(query) > MAX_CHARACTERS or query.count("&") >= MAX_KEYS:
        return _too_large()
    return from_query(parse_qs(query, keep_blank_values=True))


def from_query(
    query: Mapping[str, str | Sequence[str]], *, ignore: Collection[str] = ()
) -> SamplingReading:
    """Reads a query's keys and values; those in ``ignore`` belong to somebody else."""
    given, found, (size, count) = once_each(query, ignore)
    if size > MAX_CHARACTERS or count > MAX_KEYS:
        return _too_large()
    version = given.pop("v", VERSION)
    if version != VERSION:
        sentence = f"v is {short(version)}, and this Headroom reads version {VERSION}."
        problem = Problem("v", sentence, "Copy the link again.")
        return SamplingReading(plan=None, problems=(problem,))
    values: dict[str, Any] = {}
    for key, text in given.items():
        if key not in FIELDS:
            found.append(_unknown(key))
        elif key not in NUMBERS:
            values[key] = text.strip()
        elif INTEGER.fullmatch(text.strip()) and text.isascii():
            values[key] = int(text.strip())
        else:
            sentence = f"{key} is {short(text)}, which is not a whole number; it is left out."
            found.append(Problem(key, sentence, remedy(key)))
    plan, dropped = best(values, try_sampling_plan)
    return SamplingReading(plan=plan, problems=(*found, *dropped))


def _unknown(key: str) -> Problem:
    fix = meant(key, FIELDS, "It is ignored; leave it out.")
    return Problem(key[:64], f"{short(key)} is not a field of a sampling plan.", fix)


def _too_large() -> SamplingReading:
    sentence = f"A sampling link has at most {MAX_KEYS} keys and {MAX_CHARACTERS} characters."
    return SamplingReading(
        plan=None,
        problems=(Problem("link", sentence, "Copy it again from the page that made it."),),
    )
