"""The plans that ``python -m accuracy.gpu`` runs on a card.

All methods, 0.5 to 8 billion parameters, each switch at least twice; TRL's own trainers; plans
sized by the estimate to end near the card's capacity, and near a cap that stands for a smaller
card; sharded plans of which the card is one rank of many. A run that is stopped early has some of
every kind. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from planner import catalog
from planner.estimate import estimate
from planner.footprint import Footprint, Phase
from planner.plan import Plan, try_plan

Fields = dict[str, Any]

FULLEST = 0.90
"""A case of no special size is run when its estimate stays below this share of the card."""
TARGETS = (0.92, 0.95, 0.98, 1.02)
"""Device bytes over capacity, as estimated, that cases near the capacity are sized to."""
CAPS = (0.95, 1.03, 1.08)
"""A cap on the process over the reserved bytes that the estimate says it needs."""
LONGEST_TOKENS = 65_536
"""No response is made longer to fill a card; transformers takes any length it has weights for."""

BASE: Fields = {
    "gpus": 1,
    "sharding": "none",
    "master_dtype": "none",
    "batch_shape": "full",
    "attention": "sdpa",
    "optimizer": "adamw-fused",
    "gradient_checkpointing": "none",
    "logits": "full",
    "prompts_per_step": 2,
    "micro_batch_size": 1,
    "prompt_tokens": 512,
    "response_tokens": 512,
}
ELSEWHERE: Fields = {"gpus": 2, "rollout": "vllm-separate", "rollout_gpus": 1}
"""Responses come from another GPU."""
HERE: Fields = {"rollout": "hf", "response_tokens": 64}
METHODS: dict[str, Fields] = {
    "sft": {},
    "dpo": {},
    "grpo": {**ELSEWHERE, "responses_per_prompt": 2, "kl": "loss"},
    "intuitor": {**ELSEWHERE, "responses_per_prompt": 2, "kl": "loss"},
    "ppo": {**ELSEWHERE, "prompts_per_step": 4},
    "rloo": {**ELSEWHERE, "responses_per_prompt": 2, "kl": "reward"},
    "reinforce++": {**ELSEWHERE, "prompts_per_step": 4, "kl": "reward"},
    "grade": {"prompt_tokens": 64, "response_tokens": 32},
}
CHECKPOINTED: Fields = {"gradient_checkpointing": "full"}
TRAINER: Fields = {"framework": "trl", "logits": "fused"}
"""The loss that TRL's trainers run."""
PADDED: Fields = {"batch_shape": "padded", "micro_batch_size": 2, "prompts_per_step": 4}
EAGER: Fields = {"attention": "eager"}
ADAPTERS: Fields = {"finetuning": "lora", "lora_targets": "all-linear", "master_dtype": "fp32"}
BASE_REFERENCE: Fields = {**ADAPTERS, "reference": "adapter-disabled"}
CACHED: Fields = {"reference": "cached-logprobs"}
LONG: Fields = {"prompt_tokens": 1024, "response_tokens": 3072}
FOREACH: Fields = {"optimizer": "adamw-foreach"}

HALF_B, SMALL, ONE_B = "Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-0.6B", "meta-llama/Llama-3.2-1B"
GEMMA, MIDDLE, FOUR_B = "google/gemma-3-1b-pt", "Qwen/Qwen2.5-1.5B", "Qwen/Qwen3-4B"
SEVEN_B, EIGHT_B = "Qwen/Qwen2.5-7B", "Qwen/Qwen3-8B"

SWITCHES: dict[str, tuple[tuple[str, Fields], ...]] = {
    "sft": (
        *((model, {}) for model in (HALF_B, SMALL, ONE_B, GEMMA, MIDDLE)),
        *((model, {**CHECKPOINTED, **LONG}) for model in (HALF_B, GEMMA, FOUR_B, SEVEN_B)),
        (SMALL, {**PADDED, **CHECKPOINTED}),
        (MIDDLE, {**PADDED, **EAGER}),
        (ONE_B, {**EAGER, **CHECKPOINTED}),
        (HALF_B, {**FOREACH, **LONG}),
        (SMALL, {"master_dtype": "fp32", "logits": "chunked"}),
        (MIDDLE, {"logits": "fused", **LONG, **CHECKPOINTED}),
        (FOUR_B, {**ADAPTERS, **LONG}),
        (SEVEN_B, {**ADAPTERS, **CHECKPOINTED, **LONG}),
        (EIGHT_B, {**ADAPTERS, **PADDED}),
        (HALF_B, {"offload": "all-between-phases", "empty_cache": "between-phases"}),
        (ONE_B, {"expandable_segments": True, **LONG}),
    ),
    "dpo": (
        (HALF_B, {}),
        (SMALL, {**PADDED, **CHECKPOINTED}),
        (ONE_B, {**EAGER, "logits": "response"}),
        (MIDDLE, CACHED),
        (FOUR_B, {**BASE_REFERENCE, **CHECKPOINTED}),
        (SEVEN_B, BASE_REFERENCE),
    ),
    "grpo": (
        (HALF_B, HERE),
        (SMALL, {**HERE, **PADDED, **EAGER}),
        (ONE_B, {"logits": "response", "kl": "reward"}),
        (GEMMA, {**CHECKPOINTED, "logits": "chunked"}),
        (MIDDLE, {"reference": "offloaded", "logits": "fused", **CHECKPOINTED, **LONG}),
        (MIDDLE, {**CACHED, **CHECKPOINTED, "entropy": True}),
        (SMALL, {"reward": "model", "expandable_segments": True}),
        (FOUR_B, {**BASE_REFERENCE, **HERE}),
        (SEVEN_B, {**BASE_REFERENCE, **HERE, **CHECKPOINTED}),
        (EIGHT_B, {**BASE_REFERENCE, **CHECKPOINTED, **LONG}),
    ),
    "intuitor": (
        (HALF_B, {}),
        (SMALL, {"self_certainty": "chunked-tokens", **CHECKPOINTED}),
        (ONE_B, {"self_certainty": "chunked-vocabulary", **PADDED}),
        (MIDDLE, {**HERE, **CHECKPOINTED}),
        (FOUR_B, {**BASE_REFERENCE, "self_certainty": "chunked-tokens"}),
        (SEVEN_B, {**BASE_REFERENCE, **CHECKPOINTED, **EAGER}),
    ),
    "ppo": (
        (HALF_B, {}),
        (SMALL, {**PADDED, **CHECKPOINTED, "reward": "model"}),
        (ONE_B, {**HERE, **CHECKPOINTED}),
        (MIDDLE, {**EAGER, "logits": "response"}),
        (MIDDLE, {"offload": "all-between-phases", **CHECKPOINTED}),
        (FOUR_B, {**BASE_REFERENCE, **CHECKPOINTED}),
        (SEVEN_B, {**BASE_REFERENCE, **CHECKPOINTED}),
    ),
    "rloo": (
        (HALF_B, {}),
        (SMALL, {**PADDED, **CHECKPOINTED}),
        (FOUR_B, {**BASE_REFERENCE, **HERE}),
    ),
    "reinforce++": (
        (HALF_B, {}),
        (ONE_B, {**EAGER, **CHECKPOINTED, "logits": "response"}),
        (FOUR_B, {**BASE_REFERENCE, **CHECKPOINTED}),
    ),
    "grade": (
        (HALF_B, {}),
        (SMALL, {"grade_estimator": "straight-through"}),
        (ONE_B, {"grade_top_k": 256, "grade_reward_input": "sparse"}),
        (HALF_B, {"grade_top_k": 256, "grade_dense_scatter": True, **PADDED}),
        (MIDDLE, {"grade_kl": "batch"}),
        (SMALL, {"grade_kl": "online", "grade_step_checkpointing": True}),
        (FOUR_B, {"grade_step_checkpointing": True}),
        (FOUR_B, {**ADAPTERS, "reference": "adapter-disabled", "grade_kl": "batch", **EAGER}),
    ),
}

SHARDED: Fields = {"gpus": 8, "sharding": "fsdp2", "prompts_per_step": 16, "master_dtype": "fp32"}
RANKS: tuple[tuple[str, str, Fields], ...] = (
    ("sft", MIDDLE, {}),
    ("sft", SEVEN_B, {**CHECKPOINTED, **LONG}),
    ("sft", EIGHT_B, {**CHECKPOINTED, "reshard_after_forward": False}),
    ("sft", HALF_B, {**PADDED, "prompts_per_step": 32, **EAGER}),
    ("grpo", SEVEN_B, {**CHECKPOINTED, "gpus": 16, "rollout_gpus": 8, "logits": "response"}),
    ("ppo", FOUR_B, {**CHECKPOINTED, "gpus": 16, "rollout_gpus": 8}),
    ("dpo", FOUR_B, CHECKPOINTED),
)

AUTOCAST: Fields = {"master_dtype": "fp32"}
TRL: tuple[tuple[str, str, Fields], ...] = (
    ("sft", HALF_B, {}),
    ("sft", SMALL, AUTOCAST),
    ("sft", MIDDLE, {**CHECKPOINTED, **LONG}),
    ("sft", ONE_B, {**AUTOCAST, **PADDED, **CHECKPOINTED}),
    ("sft", HALF_B, {**AUTOCAST, **LONG, "optimizer": "adamw-foreach"}),
    ("sft", MIDDLE, {**AUTOCAST, **CHECKPOINTED, "liger": True}),
    ("sft", FOUR_B, {**ADAPTERS, **LONG}),
    ("sft", SEVEN_B, {**ADAPTERS, **CHECKPOINTED, **LONG}),
    ("sft", GEMMA, CHECKPOINTED),
    ("dpo", HALF_B, AUTOCAST),
    ("dpo", ONE_B, CHECKPOINTED),
    ("dpo", FOUR_B, {**BASE_REFERENCE, **CHECKPOINTED}),
    ("grpo", HALF_B, {**AUTOCAST, **ELSEWHERE, "responses_per_prompt": 2, "kl": "loss"}),
    ("grpo", MIDDLE, {**CHECKPOINTED, **ELSEWHERE, "responses_per_prompt": 4, "kl": "loss"}),
    ("grpo", FOUR_B, {**BASE_REFERENCE, **ELSEWHERE, "responses_per_prompt": 2, "kl": "loss"}),
    (
        "grpo",
        SEVEN_B,
        {**BASE_REFERENCE, **CHECKPOINTED, **ELSEWHERE, "responses_per_prompt": 2, "kl": "loss"},
    ),
    ("rloo", SMALL, {**AUTOCAST, **ELSEWHERE, "responses_per_prompt": 2}),
    ("rloo", FOUR_B, {**BASE_REFERENCE, **CHECKPOINTED, **ELSEWHERE, "responses_per_prompt": 2}),
    ("sft", SEVEN_B, {**SHARDED, **CHECKPOINTED}),
    ("sft", MIDDLE, {**SHARDED, "sharding": "ddp"}),
    ("dpo", FOUR_B, {**SHARDED, **CHECKPOINTED}),
)
"""Run by TRL's own trainers."""

FILLING: tuple[tuple[str, str, Fields], ...] = (
    ("sft", MIDDLE, {}),
    ("sft", SEVEN_B, {**ADAPTERS, **CHECKPOINTED}),
    ("sft", FOUR_B, CHECKPOINTED),
    ("grpo", FOUR_B, {**BASE_REFERENCE, "logits": "response"}),
)
"""Their responses are made longer until the estimate meets a target."""
CAPPED: tuple[tuple[str, str, Fields], ...] = (
    ("sft", SMALL, LONG),
    ("grpo", HALF_B, CHECKPOINTED),
    ("ppo", HALF_B, {}),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A plan to run; ``cap_bytes`` is the most that the process may reserve, 0 for the card."""

    name: str
    plan: Plan
    cap_bytes: int = 0


def cases(gpu: str) -> Iterator[Case]:
    """Every case that is a plan for a card of the catalog, kinds in turns."""
    kinds = (_switches(gpu), _trl(gpu), _filling(gpu), _ranks(gpu), _capped(gpu))
    in_turns = chain.from_iterable(zip_longest(*kinds))
    return (case for case in in_turns if case is not None)


def _switches(gpu: str) -> Iterator[Case]:
    of_methods = zip_longest(*([(m, *one) for one in found] for m, found in SWITCHES.items()))
    for asked in chain.from_iterable(of_methods):
        if asked is not None:
            method, model, switches = asked
            yield from _roomy(gpu, method, model, switches)


def _trl(gpu: str) -> Iterator[Case]:
    for method, model, switches in TRL:
        plan = plan_of(gpu, method, model, {**TRAINER, **switches})
        if _share(estimate(plan)) < FULLEST:
            yield Case(_name(method, model, {"framework": "trl", **switches}), plan)


def _ranks(gpu: str) -> Iterator[Case]:
    for method, model, switches in RANKS:
        yield from _roomy(gpu, method, model, {**SHARDED, **switches})


def _roomy(gpu: str, method: str, model: str, switches: Fields) -> Iterable[Case]:
    """A plan of no special size, where the card has room for it."""
    plan = plan_of(gpu, method, model, switches)
    if _share(estimate(plan)) < FULLEST:
        yield Case(_name(method, model, switches), plan)


def _capped(gpu: str) -> Iterator[Case]:
    for method, model, switches in CAPPED:
        plan = plan_of(gpu, method, model, switches)
        if _share(estimate(plan)) < FULLEST:
            for cap in CAPS:
                name = _name(method, model, {"cap": cap, **switches})
                yield Case(name, plan, int(cap * trainer_bytes(estimate(plan))))


def _filling(gpu: str) -> Iterator[Case]:
    for target in TARGETS:
        for method, model, switches in FILLING:
            full = sized(gpu, method, model, switches, target)
            if full is not None:
                yield Case(_name(method, model, {"capacity": target, **switches}), full)


def sized(gpu: str, method: str, model: str, switches: Fields, target: float) -> Plan | None:
    """The plan whose response is as long as the target share of the card allows.

    None where even the shortest is too much, or the longest leaves the card emptier than the
    target by more than a hundredth.
    """

    def of(tokens: int) -> Plan:
        return plan_of(gpu, method, model, {**switches, "response_tokens": tokens})

    low, high = 1, LONGEST_TOKENS // 8
    while low < high:
        middle = (low + high + 1) // 2
        plan = of(8 * middle)
        if _share(estimate(plan)) > target:
            high = middle - 1
        else:
            low = middle
    plan = of(8 * low)
    if not target - 0.01 <= _share(estimate(plan)) <= target:
        return None
    return plan


def trainer_bytes(footprint: Footprint) -> int:
    """The most reserved bytes of any phase on the trainer's GPU that its own step executes."""
    return max(phase.reserved_bytes for phase in executed(footprint))


def executed(footprint: Footprint) -> list[Phase]:
    """Phases of a footprint that the step's code executes on the trainer's GPU."""
    engine = footprint.plan.rollout != "hf"
    return [
        phase
        for phase in footprint.phases
        if phase.rank == "trainer"
        and phase.per_step
        and phase.name not in ("load", "weight sync", "checkpoint", "validation")
        and not (engine and phase.name == "rollout")
    ]


def _share(footprint: Footprint) -> float:
    return max(p.device_bytes for p in executed(footprint)) / footprint.budget_bytes


def plan_of(gpu: str, method: str, model: str, switches: Fields) -> Plan:
    """The plan of a method on a card, with these fields changed from the cases' usual ones.

    Raises:
        ValueError: naming the case, the field and the fix, for what is no plan.
    """
    values = {**BASE, **METHODS[method], **switches, "model": model, "method": method, "gpu": gpu}
    if values.get("rollout") == "hf":
        values |= {"gpus": 1, "rollout_gpus": 0}
    plan, problems = try_plan(values)
    if plan is None:
        catalog.model(model)
        raise ValueError(f"{_name(method, model, switches)}: {problems[0].sentence}")
    return plan


def _name(method: str, model: str, switches: Fields) -> str:
    chosen = (f"{key}={value}" for key, value in switches.items())
    return " ".join((method, model.split("/")[1], *chosen))
