"""What seconds have to do when a card, a batch, an engine or lengths change.

Shares of the peak are fixed (a benchmark's), rows are unpadded: nothing but the changed thing
decides. With measured tables the same is looked at, and exceptions are listed with their cause.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from benchmarks_of_cards import H100
from planner.catalog.gpu_catalog import Gpu
from planner.estimate import phase_plans
from planner.numeric import Num
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.timing.error import KIND_OF
from planner.timing.phase import phase_seconds

LENGTHS = "1~hist_128~4_512~8_1024~3_2048~1"
RL: dict[str, Any] = {
    "method": "grpo",
    "model": "Qwen/Qwen2.5-1.5B",
    "gpus": 8,
    "prompts_per_step": 64,
    "responses_per_prompt": 8,
    "prompt_tokens": 256,
    "response_tokens": 2048,
    "batch_shape": "packed",
    "attention": "flash",
}
SFT: dict[str, Any] = {
    "method": "sft",
    "model": "Qwen/Qwen2.5-0.5B",
    "gpus": 8,
    "prompts_per_step": 512,
    "prompt_tokens": 1,
    "response_tokens": 511,
    "batch_shape": "full",
}
PLANS: dict[str, dict[str, Any]] = {
    "colocated": RL,
    "lengths": {**RL, "length_distribution": LENGTHS},
    "separate": {**RL, "rollout": "vllm-separate", "rollout_gpus": 4},
    "generate": {**RL, "rollout": "hf", "batch_shape": "padded"},
    "adapters": {**RL, "finetuning": "lora"},
    "offloaded": {**RL, "offload": "all-between-phases", "reference": "offloaded"},
    "mixture": {**RL, "model": "Qwen/Qwen3-30B-A3B", "gpus": 16},
    "ppo": {**RL, "method": "ppo"},
    "sft": SFT,
    "zero": {**SFT, "sharding": "zero2"},
    "nodes": {**SFT, "gpus": 64},
}

FASTER = {
    "compute": ("bf16_flops_per_second",),
    "bandwidth": ("bandwidth_bytes_per_second",),
    "links": ("interconnect_bytes_per_second",),
}


def seconds(fields: dict[str, Any], gpu: Gpu | None = None, *, measured: bool = False) -> dict:
    """Seconds by kind of phase, with a benchmark's shares unless tables are asked for."""
    plan = Plan(**fields)
    facts = facts_of(plan, None if measured else H100)
    if gpu is not None:
        facts = replace(facts, gpu=gpu)
    scene = scene_of(plan, facts)
    found: dict[str, Num] = {}
    for phase in phase_plans(scene):
        took = phase_seconds(scene, phase) if phase.per_step else None
        if took is not None:
            kind = KIND_OF[phase.name]
            found[kind] = found.get(kind, 0.0) + took
    return found


def card(fields: dict[str, Any], keys: tuple[str, ...], times: float, measured: bool) -> Gpu:
    """The plan's card with faster peaks."""
    own = facts_of(Plan(**fields), None if measured else H100).gpu
    return replace(own, **{key: getattr(own, key) * times for key in keys})


def hist(*counts: tuple[int, int]) -> str:
    return "1~hist_" + "_".join(f"{tokens}~{count}" for tokens, count in counts)


TAILS = (
    hist((128, 4), (512, 8), (1024, 3), (2048, 1)),
    hist((128, 4), (512, 8), (1024, 3), (1900, 1)),
    hist((128, 4), (512, 8), (1024, 4)),
    hist((128, 4), (512, 12)),
    hist((128, 16)),
)
"""Each is the one before with its longest responses cut shorter."""

Chain = list[dict[str, float]]
"""Seconds of plans, none of which may be slower than the one before."""


def faster(name: str, what: str, measured: bool = False) -> Chain:
    fields = PLANS[name]
    cards = [card(fields, FASTER[what], times, measured) for times in (1.0, 1.01, 1.3, 4.0)]
    return [seconds(fields, one, measured=measured) for one in cards]


def larger(name: str, field: str, measured: bool = False) -> Chain:
    return [seconds({**PLANS[name], field: n}, measured=measured) for n in (1, 2, 4, 8)]


def captured(name: str, concurrent: int, measured: bool = False) -> Chain:
    base = {**PLANS[name], "max_num_seqs": concurrent}
    return [seconds({**base, "enforce_eager": eager}, measured=measured) for eager in (True, False)]


def shorter(name: str, concurrent: int, measured: bool = False) -> Chain:
    base = {**PLANS[name], "max_num_seqs": concurrent}
    return [seconds({**base, "length_distribution": one}, measured=measured) for one in TAILS]


def slower(chain: Chain) -> dict[str, float]:
    """Phases that some step of the chain makes slower, and by how much at most."""
    found: dict[str, float] = {}
    for before, after in pairwise(chain):
        for kind, took in before.items():
            if after[kind] > took * (1 + 1e-9):
                found[kind] = max(found.get(kind, 0.0), after[kind] / took - 1)
    return found


TRAINED = ("colocated", "adapters", "mixture", "sft", "zero", "nodes")
SCORED = ("colocated", "ppo", "mixture")
DECODED = ("colocated", "lengths", "separate", "mixture")
TAILED = ("colocated", "separate", "generate", "mixture", "ppo")


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("what", FASTER)
def test_a_faster_card_is_never_slower(name: str, what: str) -> None:
    chain = faster(name, what)
    assert not slower(chain)
    first, last = chain[0], chain[-1]
    if what == "compute" and name in ("colocated", "lengths", "separate", "ppo"):
        assert last["update"] < first["update"]
    if what == "bandwidth" and "rollout" in first:
        assert last["rollout"] < first["rollout"]
    if what == "links" and name == "separate":
        assert last["weight sync"] < first["weight sync"]


@pytest.mark.parametrize("name", TRAINED)
def test_a_larger_micro_batch_is_never_slower(name: str) -> None:
    chain = larger(name, "micro_batch_size")
    assert not slower(chain)
    if name in SHORT_ROWS:
        assert chain[-1]["update"] < chain[0]["update"]


SHORT_ROWS = ("sft", "zero", "nodes")
"""Rows of 512 tokens: launches and gathers of each micro-batch are felt."""


@pytest.mark.parametrize("name", SCORED)
def test_scoring_in_larger_batches_is_never_slower(name: str) -> None:
    assert not slower(larger(name, "logprob_micro_batch_size"))


@pytest.mark.parametrize("name", DECODED)
@pytest.mark.parametrize("concurrent", [1, 16, 256])
def test_eager_is_never_faster_than_graphs(name: str, concurrent: int) -> None:
    eager, graphs = captured(name, concurrent)
    assert graphs["rollout"] < eager["rollout"]


@pytest.mark.parametrize("name", TAILED)
@pytest.mark.parametrize("concurrent", [8, 256])
def test_a_shorter_tail_is_never_slower(name: str, concurrent: int) -> None:
    chain = shorter(name, concurrent)
    assert not slower(chain)
    assert all(after["rollout"] < before["rollout"] for before, after in pairwise(chain))


def test_lengths_below_the_cap_are_never_slower_than_the_cap() -> None:
    assert not slower([seconds(PLANS["colocated"]), seconds(PLANS["lengths"])])


EXCEPTIONS: dict[str, str] = {}
"""Chains that measured tables make slower somewhere, and why."""


def test_exceptions_that_tables_make_are_listed() -> None:
    chains = {
        **{f"{what}: {name}": faster(name, what, True) for name in PLANS for what in FASTER},
        **{f"micro-batch: {name}": larger(name, "micro_batch_size", True) for name in TRAINED},
        **{f"scoring: {n}": larger(n, "logprob_micro_batch_size", True) for n in SCORED},
        **{f"graphs {c}: {n}": captured(n, c, True) for n in DECODED for c in (1, 16, 256)},
        **{f"tail {c}: {n}": shorter(n, c, True) for n in TAILED for c in (8, 256)},
    }
    found = {label: slow for label, chain in chains.items() if (slow := slower(chain))}
    assert found.keys() == EXCEPTIONS.keys(), found
