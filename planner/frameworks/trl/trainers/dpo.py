"""``DPOTrainer``."""

from planner.frameworks.trainer import Trainer
from planner.rule import Rule

TRAINER = Trainer(
    rules=(
        Rule(
            "reference",
            lambda plan: plan.reference == "offloaded",
            "TRL keeps DPO's reference on the GPU.",
            "Set reference to copy, adapter-disabled or cached-logprobs.",
        ),
        Rule(
            "logprob_micro_batch_size",
            lambda plan: plan.logprob_micro_batch_size != plan.micro_batch_size,
            "TRL's DPO scores its reference on the micro-batch it trains on.",
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
            "Only TRL 1.16.0's DPO has been read.",
            "Set framework_version to 1.16.0.",
        ),
    ),
    not_exported="TRL's DPO is estimated here, and has no exporter yet.",
)
