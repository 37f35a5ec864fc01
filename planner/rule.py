"""What a rule is: a condition that a plan violates, and a sentence with the way out.

Rules stand with what they are about: those of every plan in :mod:`planner.plan.rules`, those of a
method or a framework in its folder, where they are asked only of plans that have it. Imports
nothing of a plan, so that whatever a plan is built from can bring rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.numeric import Num

NOT_YET = "is not modelled yet, so an estimate would be a guess."


@dataclass(frozen=True, slots=True)
class Rule:
    """``broken`` tells where a plan violates the rule; ``message`` and ``fix`` are for people."""

    field: str
    broken: Callable[[Any], Num]
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class NoEffect:
    """Fields that change nothing in a plan where ``applies`` says so, and why."""

    fields: tuple[str, ...]
    reason: str
    applies: Callable[[Any], bool] = lambda plan: True
