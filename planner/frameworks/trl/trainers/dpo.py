"""``DPOTrainer``."""

from __future__ import annotations

from planner.frameworks.trl.own import Own
from planner.frameworks.trl.script import Script
from planner.rule import Rule
from planner.values.framework import Trainer

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
    scores_reference_in_loss=True,
    export=Script(module="dpo", samples=False, packs=False),
    own=Own(
        trainer="DPOTrainer",
        config="DPOConfig",
        rows="pairs",
    ),
)
