"""What a framework has for one method: the room of the pair.

It is the value ``TRAINER`` of ``planner/frameworks/<framework>/trainers/<method's folder>.py``, or
of ``on_<framework>.py`` in the method's folder: whoever comes later brings it. Imports no plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """A trainer whose step was read, or why there is none."""

    missing: str = ""
    """Why no plan can have this pair, as a sentence; empty where it can."""
    rules: tuple[Rule, ...] = ()
    """What a plan of this pair cannot be."""
    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda values: {}
    """Fields that nobody set, given those that were, beside the framework's own."""
    export: Any = None
    """What the framework's exporter needs to know of the method; None where it writes no script."""
    not_exported: str = ""
    """Why it writes none, as a sentence."""
    variations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The framework's settings that make a published variation of the method, by its name; by the
    method's own where another one's command becomes it."""
    own_old_log_probs: Callable[[Any], bool] = lambda plan: False
    """Whether its loss takes its own log-probs as the old ones, so that no phase makes them."""
    numbers_by_sequence: bool = False
    """Whether an update keeps one old log-prob, advantage and so on a sequence, not a token."""
    own: Any = None
    """What a dry run of the framework's own code needs to know; None where it cannot be run so."""

    def told(self, plan: Any) -> Mapping[str, Any]:
        """Of these settings those of a plan's variation, or of its method where it has none."""
        name = plan.method if plan.variation == "none" else plan.variation
        return self.variations.get(name, {})
