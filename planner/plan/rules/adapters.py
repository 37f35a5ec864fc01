"""What cannot be with adapters, in 4 bits or with Liger's kernels."""

from __future__ import annotations

from planner.plan.rules.asked import adapted
from planner.rule import NOT_YET, Rule
from planner.values.sharding import sharding_of

RULES: tuple[Rule, ...] = (
    Rule(
        "lora_dropout",
        lambda plan: adapted(plan) and plan.lora_dropout > 0 and plan.compile,
        f"lora_dropout with compile {NOT_YET}",
        "Set lora_dropout to 0, or compile to false.",
    ),
    Rule(
        "finetuning",
        lambda plan: plan.finetuning == "qlora" and plan.compile,
        f"finetuning qlora with compile {NOT_YET}",
        "Choose full or lora, or set compile to false.",
    ),
    Rule(
        "finetuning",
        lambda plan: plan.finetuning == "qlora" and not sharding_of(plan).replicated,
        f"finetuning qlora with sharded weights {NOT_YET}",
        "Set sharding to none or ddp, or finetuning to lora.",
    ),
    Rule(
        "finetuning",
        lambda plan: plan.finetuning == "qlora" and plan.rollout == "hf",
        f"finetuning qlora with rollout hf {NOT_YET}",
        "Set rollout to vllm-colocated, or finetuning to lora.",
    ),
    Rule(
        "finetuning",
        lambda plan: plan.finetuning == "qlora" and plan.reference in ("copy", "offloaded"),
        f"finetuning qlora with another copy as reference {NOT_YET}",
        "Set reference to adapter-disabled or cached-logprobs.",
    ),
    Rule(
        "finetuning",
        lambda plan: (
            plan.finetuning == "qlora"
            and (plan.reference in ("cached-activations", "dual-output") or plan.critic == "shared")
        ),
        f"finetuning qlora with this reference form or a shared critic {NOT_YET}",
        "Choose lora, or reference adapter-disabled and critic separate.",
    ),
    Rule(
        "liger",
        lambda plan: plan.liger and (plan.reference == "dual-output" or plan.critic == "shared"),
        f"liger with dual outputs or a shared critic {NOT_YET}",
        "Set liger to false.",
    ),
    Rule(
        "liger",
        lambda plan: plan.liger and plan.compile,
        f"liger with compile {NOT_YET}",
        "Set liger to false.",
    ),
)
