"""REINFORCE++'s own field, as a plan and its link have it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.methods.method import OwnFields


class ReinforceFields(OwnFields):
    """What is taken off a reward before advantages are whitened over the batch."""

    reinforce_baseline: Literal["none", "group"] = Field(
        "none", description="Baseline of REINFORCE++'s advantages."
    )


own = ReinforceFields.of
"""A plan as having this field."""
