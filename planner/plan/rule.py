"""What a rule is: a condition that a plan violates, and a sentence with the way out."""

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
