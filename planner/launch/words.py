"""What exports say alike: names that transformers and torch have, packages, notes.

A note or package is a row of :func:`planner.launch.script.chosen`: whether it applies, and text.
"""

from __future__ import annotations

from planner.formulas.lora import adapted_names, built_names, lora_weights
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.methods import variation_of
from planner.values.framework import Framework

Row = tuple[object, str]

ATTENTION = {
    "eager": "eager",
    "sdpa": "sdpa",
    "flash": "flash_attention_2",
    "flash_attention_3": "flash_attention_3",
}


def kernels(plan: Plan) -> tuple[Row, ...]:
    """Packages of kernels that the estimate supposes."""
    stateful = facts_of(plan).policy.stateful_layers
    return (
        (plan.liger, "liger-kernel==0.8.5"),
        (stateful, "flash-linear-attention==0.6.0 causal-conv1d==1.7.0"),
    )


FLASH_3 = (
    "'flash-attn-3 @ git+https://github.com/Dao-AILab/flash-attention.git@v2.8.3"
    "#subdirectory=hopper'"
)
"""FlashAttention-3, of which its authors publish no wheel."""


def attention_packages(plan: Plan) -> tuple[Row, ...]:
    """Packages of the attention that the plan has."""
    return (
        (plan.attention == "flash", "flash-attn==2.8.3.post2"),
        (plan.attention == "flash_attention_3", FLASH_3),
    )


def lora_targets(plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the plan's adapters are of, as peft is told: modules, and tensors of experts."""
    targets, policy = tuple(plan.lora_targets.split(",")), facts_of(plan).policy
    if not policy.experts:
        return built_names(policy, targets), ()
    chosen = lora_weights(policy, targets)
    linear = [weight.module for weight in chosen if weight.kind == "linear"]
    return tuple(dict.fromkeys(linear)), adapted_names(chosen)[1]


def own_settings(framework: Framework) -> str:
    """What stays as the framework has it."""
    return (
        f"Learning rate, clipping and sampling keep {framework.label}'s defaults: the plan has no "
        "fields for them."
    )


def entropy_note(plan: Plan, coefficient: float) -> Row:
    """The coefficient that the export chose."""
    return (
        plan.entropy,
        f"The entropy coefficient is {coefficient}; the plan has no field for it.",
    )


def variation_note(plan: Plan) -> Row:
    """What of a variation the files do not do."""
    varied = variation_of(plan)
    left_out = varied.left_out if varied else ""
    return (left_out, left_out)


def full_rows_note(plan: Plan) -> Row:
    """What a script cannot see to."""
    text = "Full rows depend on the data: every row must have the planned length."
    return (plan.batch_shape == "full", text)


def other_framework_note(plan: Plan, framework: Framework) -> Row:
    """Whose memory the estimate is of."""
    text = f"The plan was estimated for framework {plan.framework}, not {framework.label}."
    return (plan.framework != framework.name, text)
