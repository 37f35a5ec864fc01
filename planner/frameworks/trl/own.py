"""Which of TRL's classes a method's own step is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from planner.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A trainer of TRL 1.16.0 that can be run on tensors without data."""

    trainer: str
    """Class, as the package ``trl`` names it."""
    config: str
    """Class of its arguments."""
    rows: Literal["text", "pairs", "prompts"]
    """What its data set has."""
    arguments: Callable[[Plan], Mapping[str, object]] = lambda plan: {}
    """What a plan decides beside what every trainer is told and a data set of texts needs."""
