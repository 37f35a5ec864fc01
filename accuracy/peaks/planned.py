"""How a measured row becomes a plan, or why it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from accuracy.quantity import Addition
from planner.phases.scene import Scene
from planner.term import Instant

NO_SUM = "no sum by hand for {model}: measured on the spot, which needs torch"
"""Why a row of a model that only the dry run knows has no plan here: this report runs no torch."""

More = Callable[[Scene, str, Instant], Iterable[Addition]]
"""What a row's code holds at an instant of a phase that no field of a plan says."""


def nothing(_scene: Scene, _phase: str, _instant: Instant) -> Iterable[Addition]:
    """No addition at any instant."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A row's plan.

    ``exact`` where the row says every setting that decides its peak and the plan can say it too;
    ``assumed`` is what was taken otherwise, one sentence for all rows that share it.
    """

    group: str
    fields: dict[str, Any]
    exact: bool
    assumed: str
    more: More = nothing
    otherwise: bool = False
    """Whether the plan computes in other dtypes than the run did, so that it never says all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A row without a plan, and the one reason."""

    reason: str


How = Planned | Left
