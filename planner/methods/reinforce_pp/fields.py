"""REINFORCE++'s own field, as a plan and its link have it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.values.method import OwnFields, more


class ReinforceFields(OwnFields):
    """What is taken off a reward before advantages are whitened over the batch."""

    reinforce_baseline: Literal["none", "group"] = Field(
        "none",
        title="Baseline",
        description="Baseline of REINFORCE++'s advantages.",
        json_schema_extra=more(
            "The baseline is subtracted from each reward before advantages are whitened over the "
            "batch. group: the mean reward of the prompt's responses. The baseline changes neither "
            "memory nor time."
        ),
    )


own = ReinforceFields.of
"""A plan as having this field."""
