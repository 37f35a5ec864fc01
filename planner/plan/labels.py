"""What a plan is about, as the field says it: model, method and framework by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner import catalog
from planner.plan.facts import facts_of

METHODS: Mapping[str, str] = {
    "sft": "SFT",
    "dpo": "DPO",
    "grpo": "GRPO",
    "ppo": "PPO",
    "intuitor": "Intuitor",
    "grade": "GRADE",
}
FRAMEWORKS: Mapping[str, str] = {
    "plain": "plain PyTorch",
    "trl": "TRL",
    "verl": "verl",
    "openrlhf": "OpenRLHF",
}


def subject(plan: Any) -> str:
    """``GRPO of Qwen2.5-7B with TRL 1.16.0``; a framework of our own has PyTorch's version."""
    version = plan.torch_version if plan.framework == "plain" else plan.framework_version
    framework = f"{FRAMEWORKS[plan.framework]} {version}"
    return f"{METHODS[plan.method]} of {model_name(plan)} with {framework}"


def model_name(plan: Any) -> str:
    """The policy's name without its owner; a config that nobody named says that it is one."""
    catalogued = any(model.id == plan.model for model in catalog.models())
    if plan.config and not catalogued:  # the Hub's, by the id that was asked for
        return str(plan.model.rpartition("/")[2])
    return facts_of(plan).policy_model.name
