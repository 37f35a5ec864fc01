"""GRADE's own fields, as a plan and its link have them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.methods.method import OwnFields, more


class GradeFields(OwnFields):
    """The switches of documents 001 and 002."""

    grade_estimator: Literal["soft", "straight-through"] = Field(
        "soft",
        title="Estimator",
        description="GRADE's gradient estimator.",
        json_schema_extra=more(
            "straight-through feeds one-hot tokens and keeps the soft gradient."
        ),
    )
    grade_top_k: Annotated[int, Field(ge=0, le=1_048_576)] = Field(
        0,
        title="Top k",
        description="Tokens kept per step; 0 is all.",
        json_schema_extra=more("Tokens the softmax sees each step; 0 is all of them."),
    )
    grade_dense_scatter: bool = Field(
        False,
        title="Scatter the top k to the whole vocabulary",
        description="Scatter the top k back to all tokens.",
        json_schema_extra=more(
            "What document 001's code does: the dense row that the top k should avoid is kept."
        ),
    )
    grade_kl: Literal["none", "batch", "online", "online-metric"] = Field(
        "none",
        title="KL term",
        description="GRADE's KL term.",
        json_schema_extra=more(
            "batch keeps the logits of all steps for one KL in the loss; online adds it up step by "
            "step, in the loss too. online-metric is a number to watch, without gradient and in "
            "no loss, as document 001's optimised code has it.",
            in_place_of="kl",
        ),
    )
    grade_reference_cache: bool = Field(
        False,
        title="Reference with a KV cache",
        description="Reference decodes with a KV cache.",
        json_schema_extra=more(
            "Otherwise each step runs the reference over the whole row. A cache saves seconds once "
            "products take longer than launching kernels: with long rows, or many."
        ),
    )
    grade_reward_input: Literal["dense", "sparse"] = Field(
        "dense",
        title="Reward reads",
        description="Soft tokens as a dense or sparse mixture.",
        json_schema_extra=more(
            "dense multiplies by the whole embedding; sparse gathers the top k rows of each token."
        ),
    )
    grade_step_checkpointing: bool = Field(
        False,
        title="Checkpoint each step",
        description="Checkpoint each generated token.",
        json_schema_extra=more(
            "Keeps only the input of each generated token's forward and runs it again."
        ),
    )
    grade_autocast: bool = Field(
        False,
        title="Autocast",
        description="Policy's forward under autocast, fp32 adapters included.",
        json_schema_extra=more(
            "As the documents' code has it: adapters in fp32 multiply half-precision copies, which "
            "every generated token makes anew."
        ),
    )


own = GradeFields.of
"""A plan as having these fields."""

METRIC = "online-metric"
"""The KL that no gradient comes from."""
ONLINE = ("online", METRIC)
"""Where the reference runs beside each step."""
