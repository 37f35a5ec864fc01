"""What verl calls the advantages of a method (``AdvantageEstimator`` of core_algos.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """``algorithm.adv_estimator`` of a plan, and whether a critic trains."""

    name: Callable[[Any], str]
    critic: bool = False
