"""What several rules ask of a plan, or of a sweep's grid."""

from __future__ import annotations

from planner.numeric import Num
from planner.plan.fields import PlanFields as Plan


def training_gpus(plan: Plan) -> Num:
    """GPUs that hold what is trained."""
    return plan.gpus - plan.rollout_gpus


def half(plan: Plan) -> bool:
    """Whether it computes in half precision."""
    return plan.dtype in ("bf16", "fp16")


def adapted(plan: Plan) -> bool:
    """Whether adapters train in place of the weights."""
    return plan.finetuning in ("lora", "qlora")
