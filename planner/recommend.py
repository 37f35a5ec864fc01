"""The best single changes to a plan: each is made, re-estimated and ranked.

No formulas here. A change is a few fields set together; a plan that refuses it, or
that it does not help, drops out. What makes an unfitting plan fit comes first, then
the largest saving per second lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner import references
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan, try_plan
from planner.speeds import holding
from planner.units import GIB, read_bytes, read_seconds

Changes = dict[str, Any]

WORTH_BYTES = GIB // 4
"""A smaller saving is not worth a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One change, what it does, and what it costs."""

    title: str
    sentence: str
    changes: Mapping[str, Any]
    device_bytes: int
    saved_bytes: int
    step_seconds: float | None
    seconds_lost: float | None
    fits: bool


def recommend(footprint: Footprint, most: int = 5) -> tuple[Suggestion, ...]:
    """Up to ``most`` changes that save memory, best first."""
    plan = footprint.plan
    found = []
    for title, changes in candidates(plan):
        changed, _ = try_plan({**plan.model_dump(), **changes})
        if changed is None or changed == plan:
            continue
        after = estimate(changed, holding(footprint.speeds, changed))
        suggestion = _suggestion(footprint, title, changes, after)
        mends = suggestion.fits and footprint.verdict.word != "fits"
        if suggestion.saved_bytes >= WORTH_BYTES or mends:
            found.append(suggestion)
    needs = footprint.verdict.word != "fits"
    found.sort(key=lambda s: (not (needs and s.fits), -_saving_per_second(s)))
    return tuple(found[:most])


def _suggestion(before: Footprint, title: str, changes: Changes, after: Footprint) -> Suggestion:
    saved = before.device_bytes - after.device_bytes
    lost = None
    if before.step_seconds is not None and after.step_seconds is not None:
        lost = after.step_seconds - before.step_seconds
    return Suggestion(
        title=title,
        sentence=_sentence(saved, lost, after),
        changes=changes,
        device_bytes=after.device_bytes,
        saved_bytes=saved,
        step_seconds=after.step_seconds,
        seconds_lost=lost,
        fits=after.verdict.word == "fits",
    )


def _sentence(saved: int, lost: float | None, after: Footprint) -> str:
    memory = f"saves {read_bytes(saved)}" if saved >= 0 else f"adds {read_bytes(-saved)}"
    time = "time unknown"
    if lost is not None:
        faster = "faster" if lost < 0 else "slower"
        time = "same speed" if abs(lost) < 0.05 else f"{read_seconds(abs(lost))} {faster} a step"
    return f"{memory} at the peak, {time}; then: {after.verdict.word}"


def _saving_per_second(suggestion: Suggestion) -> float:
    """Bytes saved per second lost; a change that costs no time counts as a tenth of one."""
    lost = suggestion.seconds_lost
    return suggestion.saved_bytes / max(0.1 if lost is None else lost, 0.1)


def candidates(plan: Plan) -> Iterator[tuple[str, Changes]]:
    """Changes that could save memory in some plan; the estimate decides which do."""
    yield from TRAINING
    base = {"reference": "adapter-disabled"} if references.compares(plan) else {}
    if plan.finetuning == "full":
        yield "Train LoRA adapters only", {"finetuning": "lora", **base}
    elif plan.reference in ("copy", "offloaded"):
        yield "Disable the adapters to get the reference", base
    for title, field in HALVED.items():
        half = getattr(plan, field) // 2
        if half:
            changes = {field: half}
            if field == "response_tokens":
                longest = min(plan.validation_response_tokens, half)
                changes["validation_response_tokens"] = longest
            yield title.format(half), changes
    yield "Offload the reference", {"reference": "offloaded"}
    for (field, value), (title, other) in INSTEAD.items():
        if getattr(plan, field) == value:
            yield title, {field: other}
    yield from OF_A_ROLE
    lower = round(plan.gpu_memory_utilization - 0.1, 2)
    if lower >= 0.1:
        yield f"Lower GPU memory utilization to {lower:.0%}", {"gpu_memory_utilization": lower}
    over = 2 * plan.rollout_tensor_parallel
    title = f"Raise the engine's tensor parallel size to {over}"
    yield title, {"rollout_tensor_parallel": over}
    yield "Empty the cache between phases", {"empty_cache": "between-phases"}
    if plan.gpus > 1 or plan.sharding != "none":
        yield "Shard everything with FSDP2", {"sharding": "fsdp2", "shard_size": 0}
    doubled: Changes = {"gpus": 2 * plan.gpus}
    if plan.sharding == "none":
        doubled["sharding"] = "fsdp2"
    if plan.rollout == "vllm-separate":
        doubled["rollout_gpus"] = 2 * plan.rollout_gpus
    yield f"Use {2 * plan.gpus} GPUs", doubled


TRAINING: tuple[tuple[str, Changes], ...] = (
    ("Turn on gradient checkpointing", {"gradient_checkpointing": "full"}),
    ("Checkpoint each generated token's step", {"grade_step_checkpointing": True}),
    (
        "Offload checkpointed activations to host RAM",
        {"gradient_checkpointing": "full", "activation_offload": True},
    ),
    ("Use fused linear cross-entropy", {"logits": "fused"}),
    ("Use chunked cross-entropy", {"logits": "chunked"}),
    ("Compute logits for responses only", {"logits": "response"}),
    ("Use the SDPA attention kernel", {"attention": "sdpa"}),
    ("Use flash attention", {"attention": "flash"}),
    ("Use the fused AdamW", {"optimizer": "adamw-fused"}),
    ("Use 8-bit AdamW", {"optimizer": "adamw-8bit"}),
    ("Offload weights and optimizer between phases", {"offload": "all-between-phases"}),
    ("Offload weights and optimizer to host RAM", {"offload": "all"}),
)

HALVED = {
    "Halve the micro-batch to {}": "micro_batch_size",
    "Halve the log-prob micro-batch to {}": "logprob_micro_batch_size",
    "Halve responses to {:,} tokens": "response_tokens",
}

INSTEAD = {
    ("reference", "cached-activations"): (
        "Cache the reference's log-probs, not its hidden states",
        "cached-logprobs",
    ),
    ("reference", "dual-output"): (
        "Give the reference a pass of its own",
        "adapter-disabled",
    ),
    ("critic", "separate"): ("Let the critic share the policy's body", "shared"),
}
"""What a field with this value could be instead."""

OF_A_ROLE: tuple[tuple[str, Changes], ...] = (
    ("Compute self-certainty in chunks of tokens", {"self_certainty": "chunked-tokens"}),
    (
        "Compute self-certainty in chunks of the vocabulary",
        {"self_certainty": "chunked-vocabulary"},
    ),
    ("Take self-certainty from the fused head", {"self_certainty": "fused"}),
    ("Leave self-certainty out of the gradient", {"self_certainty_gradient": False}),
    ("Let the engine sleep while training (level 2)", {"vllm_sleep_level": 2}),
)
