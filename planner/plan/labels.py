"""What a plan is about, as the field says it: model, method and framework by their names."""

from __future__ import annotations

from planner import catalog
from planner.plan.facts import facts_of
from planner.plan.fields import PlanFields as Plan
from planner.plan.frameworks import framework_named, ours
from planner.plan.methods import title_of


def subject(plan: Plan) -> str:
    """``GRPO of Qwen2.5-7B with TRL 1.16.0``; a framework of our own has PyTorch's version."""
    label = framework_named(plan.framework).label
    if ours(plan.framework):
        framework = f"{label[0].lower()}{label[1:]} {plan.torch_version}"
    else:
        framework = f"{label} {plan.framework_version}"
    return f"{title_of(plan)} of {model_name(plan)} with {framework}"


def whole_subject(plan: Plan) -> str:
    """The same with its GPUs: ``8 × H100 80GB SXM5: GRPO of Qwen2.5-7B with TRL 1.16.0``."""
    return f"{plan.gpus:,} × {facts_of(plan).gpu.name}: {subject(plan)}"


def model_name(plan: Plan) -> str:
    """The policy's name without its owner; a config that nobody named says that it is one."""
    if plan.config and all(model.id != plan.model for model in catalog.models()):
        # The Hub's, by the id that was asked for.
        return str(plan.model.rpartition("/")[2])
    return facts_of(plan).policy_model.name
