"""Ablation: what each optimization saves by itself, in the plan as it is.

Each is undone alone, and one that the plan does not have is added alone; all else stays. Every bar
is an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from planner.advice.outcome import Judge, Outcome, outcome_of
from planner.plan import Plan, references, try_plan
from planner.plan.loss import names_anew
from planner.plan.methods import method_of
from planner.plan.relevance import without_effect
from planner.values.method import OwnForm
from planner.values.sharding import SHARDINGS, sharding_of

Measure = Literal["device_bytes", "trainer_bytes"]
"""Of the card, or the trainer's own."""


class Switch(NamedTuple):
    """An optimization: the fields that turn it on, and those that it is off with."""

    name: str
    on: Mapping[str, Any]
    off: Mapping[str, Any]
    own: bool
    """Whether the plan has it on."""


class Ablation(NamedTuple):
    """What is changed and what the plan then comes to, in the order of bars: first the plan itself.

    ``left_out`` are optimizations that could not be changed alone, with why.
    """

    steps: tuple[tuple[str, Outcome], ...]
    left_out: tuple[tuple[str, str], ...]


FORMS: tuple[OwnForm, ...] = (
    ("Gradient checkpointing", "gradient_checkpointing", "none", "full"),
    ("Activation offload", "activation_offload", False, True),
    ("Fused linear cross-entropy", "logits", "full", "fused"),
    ("Memory-efficient attention", "attention", "eager", "sdpa"),
    ("8-bit AdamW", "optimizer", "adamw-fused", "adamw-8bit"),
    ("Weight and optimizer offload", "offload", "none", "all-between-phases"),
    ("Empty the cache between phases", "empty_cache", "never", "between-phases"),
    ("Expandable segments", "expandable_segments", False, True),
    ("vLLM sleep mode", "vllm_sleep_level", 0, 2),
    ("CUDA graphs off", "enforce_eager", False, True),
    ("Critic sharing the policy's weights", "critic", "separate", "shared"),
)
"""Name, field, the value that is off, and the usual one that is on."""


def switches(plan: Plan) -> tuple[Switch, ...]:
    """Every optimization that is one in this plan, those first that the plan has on."""
    found = [*_sharding(plan), *_adapters(plan)]
    without = without_effect(plan)
    for name, field, off, usual in (*FORMS, *method_of(plan).forms):
        value = getattr(plan, field)
        if field in without and field != "activation_offload":  # which checkpointing gives effect
            continue
        has = value == usual or (value != off and field != "optimizer")
        on, off = (value, off) if has else (usual, value)
        found.append(Switch(_named(name, usual, on), {field: on}, {field: off}, has))
    for on_name, _, turned_on, turned_off in method_of(plan).switches:
        own = all(getattr(plan, field) == value for field, value in turned_on.items())
        found.append(Switch(on_name[0].upper() + on_name[1:], turned_on, turned_off, own))
    able = [one for one in found if _valid(plan, one)]
    return tuple(sorted(able, key=lambda one: not one.own))


NAMES: Mapping[Any, str] = {
    "response": "Logits of responses only",
    "chunked": "Chunked cross-entropy",
    "flash": "Flash attention",
    "flash_attention_3": "FlashAttention-3",
    "every-step": "Empty the cache every step",
    "all": "Weights and optimizer always on the CPU",
    "optimizer": "Optimizer always on the CPU",
    "optimizer-between-phases": "Optimizer offload",
    "parameters-between-phases": "Weight offload",
    "chunked-tokens": "Self-certainty in chunks of tokens",
}
"""What is on, where that is not the usual value."""


def _named(name: str, usual: Any, on: Any) -> str:
    return name if usual == on else NAMES.get(on, f"{name} ({on})")


def _sharding(plan: Plan) -> list[Switch]:
    if plan.gpus - plan.rollout_gpus < 2:
        return []
    own = not sharding_of(plan).replicated
    on = plan.sharding if own else "fsdp2"
    off = {"sharding": "ddp", "shard_size": 0}
    shard_size = plan.shard_size if own else 0
    way = SHARDINGS[on]
    named = f"FSDP{way.fsdp}" if way.fsdp else f"ZeRO-{way.zero}"
    return [Switch(f"Sharding ({named})", {"sharding": on, "shard_size": shard_size}, off, own)]


def _adapters(plan: Plan) -> list[Switch]:
    own = plan.finetuning != "full"
    on = plan.finetuning if own else "lora"
    found = []
    if references.compares(plan):
        other = plan.reference if plan.reference != "copy" else "offloaded"
        copy = {"reference": "copy"}
        if own and other in references.ON_POLICY:
            both = {"finetuning": on, "reference": other}
            return [Switch("LoRA, and the reference without it", both, WHOLE | copy, True)]
        has = plan.reference != "copy"
        found.append(Switch(f"Reference ({other})", {"reference": other}, copy, has))
    # To a full fine-tuning LoRA is no optimization: it trains other weights.
    adapted = [Switch("LoRA" if on == "lora" else "QLoRA", {"finetuning": on}, WHOLE, True)]
    return [*adapted, *found] if own else found


WHOLE = {"finetuning": "full"}


def _valid(plan: Plan, one: Switch) -> bool:
    """Whether it can be on or off in the plan with the other things as they are, or all off."""
    if names_anew(plan, one.on) or names_anew(plan, one.off):
        return False
    values = plan.model_dump()
    return any(
        try_plan({**values, **changes})[0] is not None and {**values, **changes} != values
        for changes in (one.on, one.off)
    )


def ablation(
    plan: Plan,
    chosen: Sequence[Switch],
    judge: Judge,
    *,
    measure: Measure = "device_bytes",
    progress: Callable[[], None] = lambda: None,
) -> Ablation:
    """The plan, then each of ``chosen`` changed alone: what saves most first, then what is added.

    Args:
        plan: gives all that is not changed.
        chosen: optimizations, on or off in the plan.
        judge: what gives a plan's estimate.
        measure: which bytes decide the order.
        progress: called before each estimate; it may raise to give up.
    """
    values, steps, refused = plan.model_dump(), [], []
    for one in chosen:
        changed, problems = try_plan({**values, **(one.off if one.own else one.on)})
        if changed is None:
            refused.append((one.name, problems[0].sentence))
            continue
        progress()
        said = f"{'without' if one.own else 'with'} {one.name}"
        steps.append((one.own, said, outcome_of(judge(changed))))
    steps.sort(key=lambda each: (not each[0], -getattr(each[2], measure)))
    of_plan = "the plan", outcome_of(judge(plan))
    return Ablation((of_plan, *((said, after) for _, said, after in steps)), tuple(refused))
