"""REINFORCE++'s own field, as a plan and its link have it."""

from __future__ import annotations

from typing import Literal

from planner.values.field import field
from planner.values.method import OwnFields


class ReinforceFields(OwnFields):
    """What is taken off a reward before advantages are whitened over the batch."""

    reinforce_baseline: Literal["none", "group"] = field(
        "none",
        "Baseline",
        "Baseline of REINFORCE++'s advantages.",
        more="The baseline is subtracted from each reward before advantages are whitened over the "
        "batch. group: the mean reward of the prompt's responses. The baseline changes neither "
        "memory nor time.",
        since=2,
    )


own = ReinforceFields.of
"""A plan as having this field."""
