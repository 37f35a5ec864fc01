"""What GRADE's step can be told to do; the ``grade_*`` fields of a plan. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeOptions:
    """The switches of documents 001 and 002.

    ``top_k`` 0 is the whole vocabulary. ``tau`` is the temperature of the Gumbel-softmax (a
    schedule would pass another one each step) and ``beta`` the weight of the KL term.
    """

    estimator: Literal["soft", "straight-through"] = "soft"
    top_k: int = 0
    dense_scatter: bool = False
    kl: Literal["none", "batch", "online"] = "none"
    reference_cache: bool = False
    reward_input: Literal["dense", "sparse"] = "dense"
    step_checkpointing: bool = False
    tau: float = 1.0
    beta: float = 0.05

    def __post_init__(self) -> None:
        """Refuse what cannot run, naming the field."""
        if self.reward_input == "sparse" and not self.top_k:
            raise ValueError("reward_input is 'sparse' but top_k is 0; set top_k, or use 'dense'")
        if self.dense_scatter and not self.top_k:
            raise ValueError("dense_scatter is set but top_k is 0; set top_k, or leave it out")
        if self.tau <= 0:
            raise ValueError(f"tau is {self.tau}; set it above 0")

    @classmethod
    def of(cls, plan: Any) -> GradeOptions:
        """The options that a plan names."""
        return cls(
            estimator=plan.grade_estimator,
            top_k=plan.grade_top_k,
            dense_scatter=plan.grade_dense_scatter,
            kl=plan.grade_kl,
            reference_cache=plan.grade_reference_cache,
            reward_input=plan.grade_reward_input,
            step_checkpointing=plan.grade_step_checkpointing,
        )
