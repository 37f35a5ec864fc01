"""What rules, and the setup that follows, ask of a plan or of a sweep's grid."""

from __future__ import annotations

from planner.plan.fields import PlanFields as Plan
from planner.plan.frameworks import framework_named
from planner.values.model_setup import Dtype
from planner.values.sharding import sharding_of


def stored(plan: Plan) -> Dtype:
    """What trained models' weights are kept in: the master copy's dtype, where that is kept.

    DeepSpeed keeps its fp32 copy apart, as optimizer state. A frozen base under adapters is in a
    dtype of its own, unless the framework loads base and adapters alike.
    """
    alike = framework_named(plan.framework).base_in_master_dtype
    frozen_base = plan.finetuning != "full" and not alike
    if frozen_base and plan.base_dtype == "fp32":
        return "fp32"
    if plan.master_dtype == "none" or sharding_of(plan).zero > 0 or frozen_base:
        return plan.dtype
    return "fp32"


def autocasts(plan: Plan) -> bool:
    """Whether trained models' forwards compute in half precision on fp32 weights."""
    return stored(plan) == "fp32" != plan.dtype and sharding_of(plan).replicated
