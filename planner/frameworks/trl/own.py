"""Which of TRL's classes a method's own step is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Its settings' defaults where they are its own."""
    lacks: frozenset[str] = frozenset()
    """Settings of trainers of this kind that it has not."""
    refuses: Callable[[Plan], str] = lambda plan: ""
    """Why a plan is not run by it, as a sentence; empty where it is."""
