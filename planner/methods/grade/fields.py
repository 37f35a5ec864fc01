"""GRADE's own fields, as a plan and its link have them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.values.field import field
from planner.values.method import OwnFields


class GradeFields(OwnFields):
    """The switches of documents 001 and 002."""

    grade_estimator: Literal["soft", "straight-through"] = field(
        "soft",
        "Estimator",
        "GRADE's gradient estimator.",
        more="straight-through feeds one-hot tokens and uses the gradient of the soft tokens.",
    )
    grade_top_k: Annotated[int, Field(ge=0, le=1_048_576)] = field(
        0,
        "Top k",
        "Tokens kept per step; 0 keeps all.",
        more="Number of tokens that enter the softmax at each step; 0 takes the whole vocabulary.",
    )
    grade_dense_scatter: bool = field(
        False,
        "Scatter the top k to the whole vocabulary",
        "Scatter the top-k weights into a row of the whole vocabulary.",
        more="As in document 001's code: this keeps the dense row that top-k should avoid.",
    )
    grade_kl: Literal["none", "batch", "online", "online-metric"] = field(
        "none",
        "KL term",
        "GRADE's KL term.",
        more="batch keeps the logits of all steps for one KL in the loss; online adds the KL up "
        "step by step, also in the loss. online-metric only reports the KL, without gradient and "
        "outside the loss, as in document 001's optimised code.",
        in_place_of="kl",
    )
    grade_reference_cache: bool = field(
        False,
        "Reference with a KV cache",
        "The reference decodes with a KV cache.",
        more="Without a cache each step runs the reference over the whole row. A cache saves time "
        "once GEMMs take longer than launching their kernels: with long rows, or with many rows.",
    )
    grade_reward_input: Literal["dense", "sparse"] = field(
        "dense",
        "Reward reads",
        "The reward model reads soft tokens as a dense or sparse mixture.",
        more="dense multiplies by the whole embedding; sparse gathers the top k rows of each "
        "token.",
    )
    grade_step_checkpointing: bool = field(
        False,
        "Checkpoint each step",
        "Checkpoint each generated token.",
        more="Keeps only the input of each generated token's forward and recomputes that forward "
        "in the backward.",
    )
    grade_autocast: bool = field(
        False,
        "Autocast",
        "The policy's forward runs under autocast, including its fp32 adapters.",
        more="As in the documents' code: fp32 adapters are cast to half-precision copies, and "
        "every generated token makes new copies.",
        since=3,
    )


own = GradeFields.of
"""A plan as having these fields."""

METRIC = "online-metric"
"""The KL that no gradient comes from."""
ONLINE = ("online", METRIC)
"""Where the reference runs beside each step."""
