"""How a published row is predicted, or why it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from accuracy.quantity import Answer
from planner.plan import Plan

Comparable = Literal["like for like", "approximate"]
"""Like for like: the row states every setting that matters and the plan can say them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A row with a prediction.

    ``fields`` make the plan (None for a figure of the head alone); ``answer`` reads the
    number off it. ``assumed`` says which settings the source does not state, ``note``
    what is known about the difference.
    """

    id: str
    level: str
    fields: dict[str, Any] | None
    answer: Callable[[Plan | None], Answer]
    comparable: Comparable
    assumed: str
    note: str = ""

    @property
    def plan(self) -> Plan | None:
        """The plan; raises what the plan raises when it is refused."""
        return None if self.fields is None else Plan(**self.fields)

    def predict(self) -> Answer:
        """The answer for this row's plan."""
        return self.answer(self.plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpredicted:
    """A row without a prediction, and the reason in words."""

    id: str
    reason: str


Mapping = Predicted | Unpredicted
