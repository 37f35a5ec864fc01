"""``DPOTrainer``."""

from __future__ import annotations

from planner.frameworks.trl.own import Own
from planner.plan import Plan
from planner.plan.loss import foreign, has_path
from planner.rule import Rule
from planner.values.framework import Trainer


def _refuses(plan: Plan) -> str:
    """What no export refuses, since there is none."""
    for holds, why in (
        (plan.max_tokens_per_micro_batch, "TRL batches by rows, never by tokens."),
        (
            plan.prompts_per_update % plan.micro_batch_size,
            "An update does not divide into full micro-batches.",
        ),
        (not has_path(plan), f"The plan's loss is {foreign(plan)}."),
        (
            plan.empty_cache == "between-phases",
            "TRL frees PyTorch's cached memory each step, or never.",
        ),
    ):
        if holds:
            return why
    return ""


TRAINER = Trainer(
    rules=(
        Rule(
            "reference",
            lambda plan: plan.reference == "offloaded",
            "TRL keeps DPO's reference on the GPU.",
            "Set reference to copy, adapter-disabled, frozen-adapter or cached-logprobs.",
        ),
        Rule(
            "logprob_micro_batch_size",
            lambda plan: plan.logprob_micro_batch_size != plan.micro_batch_size,
            "TRL's DPO runs the reference on the same micro-batch as the policy.",
            "Set logprob_micro_batch_size to the value of micro_batch_size.",
        ),
        Rule(
            "lora_dropout",
            lambda plan: plan.finetuning != "full" and plan.lora_dropout > 0,
            "TRL's DPO switches dropout off.",
            "Set lora_dropout to 0.",
        ),
        Rule(
            "framework_version",
            lambda plan: plan.framework_version != "1.16.0",
            "Of TRL's DPO trainers, only that of version 1.16.0 is modelled.",
            "Set framework_version to 1.16.0.",
        ),
    ),
    not_exported="Headroom estimates TRL's DPO but has no exporter for it yet.",
    own=Own(
        trainer="DPOTrainer",
        config="DPOConfig",
        rows="pairs",
        refuses=_refuses,
    ),
)
