"""What every plan has, whatever its method: each field in one row, and what is read of all rows.

Says nothing of what is usual; :mod:`planner.plan.plan` adds the methods' own fields, the defaults
and the rules that ask a method. What lies below the plan and is given one names this type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import ConfigDict

from planner.plan.fields.batch import BatchFields
from planner.plan.fields.computing import ComputeFields
from planner.plan.fields.kinds import EIGHT_BIT as EIGHT_BIT
from planner.plan.fields.kinds import FLASH as FLASH
from planner.plan.fields.kinds import MOST as MOST
from planner.plan.fields.kinds import Offload as Offload
from planner.plan.fields.machines import ANOTHER, MachineFields
from planner.plan.fields.rollout import NO_ENGINE, RolloutFields
from planner.plan.fields.training import TrainingFields
from planner.rule import NoEffect, Rule
from planner.values.field import Row, row_of


class PlanFields(RolloutFields, ComputeFields, TrainingFields, BatchFields, MachineFields):
    """Everything a person chooses about one post-training run; methods add fields of their own.

    ``Plan(model="Qwen/Qwen2.5-7B", method="grpo", gpu="h100-80gb", gpus=8,
    prompt_tokens=512, response_tokens=2048)`` is enough; every other field has a
    default that depends only on the fields given.

    Raises:
        pydantic.ValidationError: with one sentence per bad field, naming the field
            and the fix. :func:`try_plan` gives the same as plain values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def changed(self, **changes: Any) -> Self:
        """This plan with some fields set otherwise; validated again."""
        return type(self)(**{**self.model_dump(), **changes})


ROWS: Mapping[str, Row] = {name: row_of(info) for name, info in PlanFields.model_fields.items()}
"""Every field's row, methods' own apart, in the order of a link."""

NOT_MODELLED = tuple(
    Rule(name, *row.not_modelled) for name, row in ROWS.items() if row.not_modelled
)
"""What no plan can have yet, each asked of its own field alone."""
REFUSED = tuple(Rule(name, *each) for name, row in ROWS.items() for each in row.refused)
"""What no plan can be, as far as its fields tell."""


ENGINE_FIELDS = tuple(name for name, row in ROWS.items() if NO_ENGINE in row.no_effect)

MOVES: Mapping[str, str] = {
    "preset": ANOTHER,
    **{name: row.moves for name, row in ROWS.items() if row.moves},
}
"""Which way a field moves the figures that is left out of an answer, since it is refused."""
NOT_KNOWN = "which way it would move the figures is not known"

IDLE = tuple(NoEffect((name,), *why) for name, row in ROWS.items() for why in row.no_effect)
"""What changes nothing where other fields say so."""
