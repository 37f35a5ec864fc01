"""What if: each optimization's own part, from all of them off to all of them on.

What one saves depends on what is on already, so the order matters: the person's, or largest first,
in which each place goes to the one that saves most there. Every bar is an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from planner.advice.outcome import Judge
from planner.footprint import Footprint
from planner.methods import method_of
from planner.methods.method import OwnForm
from planner.plan import Plan, try_plan
from planner.plan.loss import names_anew
from planner.plan.relevance import without_effect
from planner.setup import references
from planner.values.sharding import SHARDINGS, sharding_of

Measure = Literal["device", "trainer"]


class Switch(NamedTuple):
    """An optimization: the fields that turn it on, and those that it is off with."""

    name: str
    on: Mapping[str, Any]
    off: Mapping[str, Any]
    own: bool
    """Whether the plan has it on."""


class Step(NamedTuple):
    """A bar: what the plan comes to once this is on too; the first has all of them off."""

    name: str
    device_bytes: int
    trainer_bytes: int
    seconds: float | None
    word: str

    def bytes(self, measure: Measure) -> int:
        """Of the card, or the trainer's own."""
        return self.device_bytes if measure == "device" else self.trainer_bytes


class Waterfall(NamedTuple):
    """Bars in their order, and optimizations that could not be turned on, with why."""

    steps: tuple[Step, ...]
    left_out: tuple[tuple[str, str], ...]


FORMS: tuple[OwnForm, ...] = (
    ("Gradient checkpointing", "gradient_checkpointing", "none", "full"),
    ("Offload of activations", "activation_offload", False, True),
    ("Fused linear cross-entropy", "logits", "full", "fused"),
    ("Memory-efficient attention", "attention", "eager", "sdpa"),
    ("8-bit AdamW", "optimizer", "adamw-fused", "adamw-8bit"),
    ("Offload of weights and optimizer", "offload", "none", "all-between-phases"),
    ("Empty the cache between phases", "empty_cache", "never", "between-phases"),
    ("Expandable segments", "expandable_segments", False, True),
    ("Sleeping engine", "vllm_sleep_level", 0, 2),
    ("CUDA graphs off", "enforce_eager", False, True),
    ("Critic on the policy's body", "critic", "separate", "shared"),
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
    "all": "Weights and optimizer on the host throughout",
    "optimizer": "Optimizer on the host throughout",
    "optimizer-between-phases": "Offload of the optimizer",
    "parameters-between-phases": "Offload of weights",
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
    return [Switch("LoRA" if on == "lora" else "QLoRA", {"finetuning": on}, WHOLE, own), *found]


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


def waterfall(
    plan: Plan,
    chosen: Sequence[Switch],
    judge: Judge,
    *,
    largest_first: bool = False,
    measure: Measure = "device",
    progress: Callable[[], None] = lambda: None,
) -> Waterfall:
    """Bars from all of ``chosen`` off to all of them on.

    Args:
        plan: gives all that is not chosen.
        chosen: in the person's order.
        judge: what gives a plan's estimate.
        largest_first: each place goes to the one that saves most bytes there, ties to the faster.
        measure: which bytes decide that order.
        progress: called before each estimate; it may raise to give up.
    """
    values = plan.model_dump()
    for one in chosen:
        values.update(one.off)
    left = list(chosen)
    start, problems = try_plan(values)
    if start is None:
        why = problems[0].sentence
        return Waterfall((), (("All of them off", why),))
    found: dict[Plan, Footprint] = {}

    def step(name: str, of: Plan) -> Step:
        if of not in found:
            progress()
            found[of] = judge(of)
        return _step(name, found[of])

    steps = [step("All off", start)]
    while left:
        tried = ((one, try_plan({**values, **one.on})[0]) for one in left)
        able = [(one, of) for one, of in tried if of is not None]
        if not able:
            break
        reached = [(one, step(one.name, of)) for one, of in (able if largest_first else able[:1])]
        one, lowest = min(reached, key=lambda pair: (pair[1].bytes(measure), pair[1].seconds or 0))
        steps.append(lowest)
        values.update(one.on)
        left.remove(one)
    refused = ((one.name, try_plan({**values, **one.on})[1][0].sentence) for one in left)
    return Waterfall(tuple(steps), tuple(refused))


def _step(name: str, footprint: Footprint) -> Step:
    return Step(
        name=name,
        device_bytes=footprint.device_bytes,
        trainer_bytes=footprint.trainer_bytes,
        seconds=footprint.step_seconds,
        word=footprint.verdict.word,
    )
