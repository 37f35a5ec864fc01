"""Released starting points: complete plans with a name, never edited once released.

A better choice of fields is a new version (``grpo-7b@2``), because links that name the
old one must keep their meaning. ``presets.json`` holds every field of each, written out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.migrations import migrate

DEFAULT = "grpo-7b@1"
"""The preset a first visit opens with."""

PATH = Path(__file__).with_name("presets.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What somebody published of a run: where, when it was read, and what of it a plan differs in.

    ``figures`` are each as it was published, and which figure of an estimate stands beside it.
    """

    source: str
    read: str
    figures: Sequence[tuple[str, str]]
    differs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named plan. ``key`` is ``name@version``; ``task`` groups presets on a page.

    ``published`` is of a recipe alone: a public run that the plan is of.
    """

    key: str
    task: str
    title: str
    description: str
    plan: Plan
    published: Published | None = None


@cache
def presets() -> Mapping[str, Preset]:
    """Every released preset by its key, in order of release."""
    rows = json.loads(PATH.read_text(encoding="utf-8"))
    return MappingProxyType(
        {
            row["key"]: Preset(
                key=row["key"],
                task=row["task"],
                title=row["title"],
                description=row["description"],
                plan=Plan(**migrate(row["plan"], row["v"])),
                published=Published(**row["published"]) if "published" in row else None,
            )
            for row in rows
        }
    )


DOCUMENTS = "Documents"
"""The task of presets that are what a document assumes, and no starting point of one's own."""


def listed(current: str) -> tuple[Preset, ...]:
    """The newest release of each, and the current one: common ones, recipes, the documents'."""
    known = [one for key, one in presets().items() if key in (newest(key), current)]
    return tuple(sorted(known, key=lambda one: (one.task == DOCUMENTS, one.published is not None)))


def newest(key: str) -> str:
    """The latest release of this preset's name."""
    name = key.partition("@")[0]
    versions = [int(one.partition("@")[2]) for one in presets() if one.partition("@")[0] == name]
    return f"{name}@{max(versions)}"


def nearest(plan: Plan) -> Preset:
    """The preset that differs from this plan in the fewest fields; the oldest of equals.

    A recipe only of its own plan: what was published is of no other.
    """
    values = dict(plan)
    known = [one for one in presets().values() if one.published is None or one.plan == plan]
    return min(known, key=lambda preset: len(differences(dict(preset.plan), values)))
