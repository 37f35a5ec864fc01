"""GRADE's own fields, as a plan and its link have them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.methods.method import OwnFields


class GradeFields(OwnFields):
    """The switches of documents 001 and 002."""

    grade_estimator: Literal["soft", "straight-through"] = Field(
        "soft", description="GRADE's gradient estimator."
    )
    grade_top_k: Annotated[int, Field(ge=0, le=1_048_576)] = Field(
        0, description="Tokens kept per step; 0 is all."
    )
    grade_dense_scatter: bool = Field(False, description="Scatter the top k back to all tokens.")
    grade_kl: Literal["none", "batch", "online"] = Field("none", description="GRADE's KL term.")
    grade_reference_cache: bool = Field(False, description="Reference decodes with a KV cache.")
    grade_reward_input: Literal["dense", "sparse"] = Field(
        "dense", description="Soft tokens as a dense or sparse mixture."
    )
    grade_step_checkpointing: bool = Field(False, description="Checkpoint each generated token.")


own = GradeFields.of
"""A plan as having these fields."""
