"""What verl calls the advantages of a method (``AdvantageEstimator`` of core_algos.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """``algorithm.adv_estimator`` of a plan, and whether a critic trains."""

    name: Callable[[Any], str]
    fields: Mapping[str, Mapping[str, Any]] = field(hash=False)
    """Every estimator that is this method to memory and seconds, and the method's own fields."""
    critic: bool = False
    variation: Callable[[Mapping[str, Any]], str] = lambda said: "none"
    """The published variation that settings make, by their names."""
