"""The trials that ``python -m accuracy.trials`` runs on a card, in groups.

A group has one *base*; the others differ from it in length, batch or depth, and are predicted
from it. A *truncated* trial is of the same plan as a *whole* one. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, Literal

from accuracy.gpu_cases import (
    ADAPTERS,
    BASE_REFERENCE,
    CHECKPOINTED,
    EIGHT_B,
    FOUR_B,
    HALF_B,
    HERE,
    MIDDLE,
    ONE_B,
    SEVEN_B,
    SHARDED,
    SMALL,
    TRAINER,
    TRL,
    Fields,
    plan_of,
)
from planner.plan import Plan
from planner.trial.ask.variants import layers_of, with_layers

Part = Literal[
    "base", "length", "batch", "depth", "whole", "truncated", "rank", "default", "trainer"
]

OF_METHOD = {
    "sft": HALF_B,
    "dpo": SMALL,
    "grpo": HALF_B,
    "intuitor": SMALL,
    "ppo": HALF_B,
    "rloo": SMALL,
    "reinforce++": HALF_B,
    "grade": HALF_B,
}
"""A small model of each method, so that many trials fit into little time."""
LONGER: Fields = {"prompt_tokens": 1024, "response_tokens": 1024}
LONGER_IN_GRAPH: Fields = {"prompt_tokens": 128, "response_tokens": 48}
"""GRADE's responses are in its training graph."""
WHOLE: tuple[tuple[str, str, Fields, tuple[int, int]], ...] = (
    ("sft", MIDDLE, {}, (6, 12)),
    ("sft", SEVEN_B, {**ADAPTERS, **CHECKPOINTED}, (6, 12)),
    ("grpo", FOUR_B, BASE_REFERENCE, (8, 16)),
    ("dpo", ONE_B, {}, (4, 8)),
    ("sft", EIGHT_B, {**ADAPTERS, **CHECKPOINTED}, (6, 12)),
)
RANKS: tuple[tuple[str, str, Fields], ...] = (
    ("sft", SEVEN_B, CHECKPOINTED),
    ("grpo", SEVEN_B, {**CHECKPOINTED, "gpus": 16, "rollout_gpus": 8, "logits": "response"}),
    ("dpo", FOUR_B, CHECKPOINTED),
    ("sft", EIGHT_B, {**CHECKPOINTED, "gpus": 64, "prompts_per_step": 128}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCase:
    """One trial: a plan, and what is asked for beside it (fields of a trial's request)."""

    name: str
    group: str
    part: Part
    plan: Plan
    choices: Mapping[str, Any] = field(default_factory=dict)


def cases(gpu: str) -> Iterator[TrialCase]:
    """Every trial for a card of the catalog; a plan that should take a minute first.

    Raises:
        ValueError: for a card that the catalog does not have.
    """
    default = plan_of(gpu, "grpo", SEVEN_B, {**BASE_REFERENCE, **HERE, **CHECKPOINTED})
    yield TrialCase(name="a default trial of 7B", group="default", part="default", plan=default)
    groups = (
        chain.from_iterable(_whole(gpu, *one) for one in WHOLE),
        chain.from_iterable(_varied(gpu, *one) for one in OF_METHOD.items()),
        _trainers(gpu),
        _ranks(gpu),
    )
    yield from filter(None, chain.from_iterable(zip_longest(*groups)))


def _trainers(gpu: str) -> Iterator[TrialCase]:
    for method, model, switches in TRL[:: len(TRL) // 6]:
        plan = plan_of(gpu, method, model, {**TRAINER, **switches})
        name = f"{method} {_short(model)}, TRL's trainer"
        yield TrialCase(name=name, group=name, part="trainer", plan=plan)


def _ranks(gpu: str) -> Iterator[TrialCase]:
    for method, model, switches in RANKS:
        plan = plan_of(gpu, method, model, {**SHARDED, **switches})
        name = f"{method} {_short(model)}, rank 0 of {plan.gpus - plan.rollout_gpus}"
        yield TrialCase(name=name, group=name, part="rank", plan=plan)


def _varied(gpu: str, method: str, model: str) -> Iterator[TrialCase]:
    group = f"{method} {_short(model)}"
    base = plan_of(gpu, method, model, {})
    longer = LONGER_IN_GRAPH if method == "grade" else LONGER
    wider = {"micro_batch_size": 2, "logprob_micro_batch_size": 2}
    doubled = {"prompts_per_step": 2 * base.prompts_per_step}
    found: tuple[tuple[Part, Plan], ...] = (
        ("base", base),
        ("length", plan_of(gpu, method, model, longer)),
        ("batch", plan_of(gpu, method, model, {**wider, **doubled})),
        ("depth", with_layers(base, layers_of(base) // 2)),
    )
    for part, plan in found:
        name = group if part == "base" else f"{group}, other {part}"
        yield TrialCase(name=name, group=group, part=part, plan=plan)


def _whole(
    gpu: str, method: str, model: str, switches: Fields, depths: tuple[int, int]
) -> Iterator[TrialCase]:
    plan = plan_of(gpu, method, model, switches)
    group = f"{method} {_short(model)}, whole and truncated"
    parts: tuple[tuple[Part, Fields], ...] = (
        ("whole", {"truncate": "never"}),
        ("truncated", {"depths": depths}),
    )
    for part, choices in parts:
        name = f"{method} {_short(model)}, {part}"
        yield TrialCase(name=name, group=group, part=part, plan=plan, choices=choices)


def _short(model: str) -> str:
    return model.split("/")[1]
