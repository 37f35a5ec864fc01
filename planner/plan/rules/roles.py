"""What cannot be of a reference and a critic."""

from __future__ import annotations

from planner.plan.frameworks import framework_named
from planner.plan.methods import method_of
from planner.plan.references import IN_LOSS
from planner.plan.rules.asked import adapted
from planner.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "reference",
        lambda p: p.reference == "adapter-disabled" and not adapted(p),
        "Only adapters can be disabled to get the reference.",
        "Set reference to copy or offloaded, or finetuning to lora.",
    ),
    Rule(
        "reference",
        lambda p: p.reference == "frozen-adapter" and not adapted(p),
        "A second adapter needs a model with adapters.",
        "Set finetuning to lora, or reference to copy or offloaded.",
    ),
    Rule(
        "reference",
        lambda p: p.reference == "dual-output" and not adapted(p),
        "Without adapters the training forward does not contain the reference's weights.",
        "Set finetuning to lora, or reference to copy.",
    ),
    Rule(
        "reference",
        lambda p: p.reference in IN_LOSS and p.kl == "reward",
        "This reference is scored inside the loss, too late for a KL term in the reward.",
        "Set kl to loss, or reference to copy, adapter-disabled or cached-logprobs.",
    ),
    Rule(
        "reference",
        lambda p: p.reference in IN_LOSS and not framework_named(p.framework).steps_are_ours,
        "No framework's trainer has this reference form.",
        "Set framework to plain, or set reference to one of: copy, offloaded, adapter-disabled, "
        "cached-logprobs.",
    ),
    Rule(
        "reference",
        lambda p: p.kl != "none" and p.reference == "none",
        "A KL term needs a reference.",
        "Set reference to copy (or adapter-disabled with LoRA), or kl to none.",
    ),
    Rule(
        "critic",
        lambda p: p.critic not in ("none", *method_of(p).critics),
        "This method cannot have the chosen critic.",
        "Set critic to none.",
    ),
)
