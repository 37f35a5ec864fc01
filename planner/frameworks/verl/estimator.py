"""What verl calls the advantages of a method (``AdvantageEstimator`` of core_algos.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """``algorithm.adv_estimator`` of a plan, and whether a critic trains."""

    name: Callable[[Any], str] = lambda plan: str(plan.method)
    critic: bool = False
    variations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Overrides that make a published variation of the method, by its name."""
