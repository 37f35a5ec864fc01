"""A grid: a plan in which some fields are arrays, so that one pass judges many plans.

Arrays form an open mesh (axis *i* varies along dimension *i* only), so a term that
depends on two of three axes is computed on those two alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from planner.numeric import Num
from planner.plan import Plan
from planner.plan.fieldtext import KINDS
from planner.setup.quantities import VECTOR_FIELDS

FOLLOWERS: Mapping[str, str] = {
    "prompts_per_update": "prompts_per_step",
    "validation_response_tokens": "response_tokens",
    "logprob_micro_batch_size": "micro_batch_size",
}
"""Fields that move with another one as long as the plan has the two equal."""

TYPES: Mapping[type, type] = {int: np.int64, float: np.float64, bool: np.bool_}


class Mesh:
    """Values of fields of :data:`VECTOR_FIELDS` as arrays of one open mesh."""

    def __init__(self, axes: Mapping[str, Sequence[Any]]) -> None:
        self.shape = tuple(len(values) for values in axes.values())
        self.values: dict[str, Num] = {}
        for position, (field, values) in enumerate(axes.items()):
            if field not in VECTOR_FIELDS:
                raise ValueError(f"{field}: cannot be an array; vary it plan by plan.")
            shape = [1] * len(axes)
            shape[position] = len(values)
            self.values[field] = np.asarray(values, dtype=TYPES[KINDS[field]]).reshape(shape)

    @property
    def rows(self) -> int:
        """How many plans it is."""
        return int(np.prod(self.shape, dtype=np.int64))

    def spread(self, values: Num, dtype: Any, count: int = 1) -> np.ndarray[Any, Any]:
        """A number, or a part of the mesh of each of so many combinations, as a row for each."""
        every = np.broadcast_to(np.asarray(values, dtype=dtype), (count, *self.shape))
        return every.reshape(count, self.rows)


class Grid:
    """Reads like a plan; fields on an axis are arrays of one open mesh.

    Args:
        plan: gives every field that is not on an axis.
        axes: field → values. Fields must be of :data:`VECTOR_FIELDS`.
    """

    def __init__(self, plan: Plan, axes: Mapping[str, Sequence[Any]] | Mesh) -> None:
        self.plan = plan
        self.mesh = axes if isinstance(axes, Mesh) else Mesh(axes)
        self._values = dict(self.mesh.values)
        for follower, leader in FOLLOWERS.items():
            together = getattr(plan, follower) == getattr(plan, leader)
            if together and leader in self._values and follower not in self._values:
                self._values[follower] = self._values[leader]

    def __getattr__(self, field: str) -> Any:
        values = self.__dict__.get("_values", {})
        return values[field] if field in values else getattr(self.__dict__["plan"], field)


def followed(plan: Plan, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes, with the fields that move along with a changed one."""
    moved = dict(changes)
    for follower, leader in FOLLOWERS.items():
        together = getattr(plan, follower) == getattr(plan, leader)
        if together and leader in changes and follower not in changes:
            moved[follower] = changes[leader]
    return moved
