"""What a dry run has to measure of a model before fields make a plan; nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.catalog import measured, spot
from planner.plan.plan import try_plan


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A model of which a measurement is missing."""

    key: str
    """Of its measurements on this machine."""
    model_type: str


def unmeasured(values: Mapping[str, Any]) -> Unmeasured | None:
    """The model whose layers these fields need measured first; None where nothing is missing.

    Nor is it where a rule refuses them whatever a measurement says, which takes seconds.
    """
    found: list[Unmeasured] = []

    def note(key: str, config: Mapping[str, Any], _: Sequence[str]) -> None:
        found.append(Unmeasured(key, str(config["model_type"])))

    with spot.measuring(note):
        plan, problems = try_plan(values)
    refused = any(not measured.waits(problem.message) for problem in problems)
    return None if plan is not None or not found or refused else found[0]
