"""What rules, and the setup that follows, ask of a plan or of a sweep's grid."""

from __future__ import annotations

from planner.numeric import Num
from planner.plan.fields import PlanFields as Plan
from planner.values.model_setup import Dtype
from planner.values.sharding import sharding_of


def training_gpus(plan: Plan) -> Num:
    """GPUs that hold what is trained."""
    return plan.gpus - plan.rollout_gpus


def half(plan: Plan) -> bool:
    """Whether it computes in half precision."""
    return plan.dtype in ("bf16", "fp16")


def adapted(plan: Plan) -> bool:
    """Whether adapters train in place of the weights."""
    return plan.finetuning in ("lora", "qlora")


def stored(plan: Plan) -> Dtype:
    """What trained models' weights are kept in: the master copy's dtype, where that is kept.

    DeepSpeed keeps its fp32 copy apart, as optimizer state. A frozen base under adapters is in a
    dtype of its own.
    """
    frozen_base = plan.finetuning != "full"
    if frozen_base and plan.base_dtype == "fp32":
        return "fp32"
    if plan.master_dtype == "none" or sharding_of(plan).zero > 0 or frozen_base:
        return plan.dtype
    return "fp32"


def autocasts(plan: Plan) -> bool:
    """Whether trained models' forwards compute in half precision on fp32 weights."""
    return stored(plan) == "fp32" != plan.dtype and sharding_of(plan).replicated
