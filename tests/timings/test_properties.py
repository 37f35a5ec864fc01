"""What seconds have to do when a card, a batch, an engine or lengths change.

Shares of the peak are fixed (a benchmark's), rows are unpadded: nothing but the changed thing
decides. What measured tables do otherwise is listed in accuracy/measured/timing-exceptions.json.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from accuracy.timings import chains
from accuracy.timings.chains import (
    FASTER,
    FILE,
    RUN,
    Found,
    captured,
    faster,
    larger,
    seconds,
    slower,
)
from accuracy.timings.chains import shorter as shorter_tails
from benchmarks_of_cards import H100

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
    "colocated": {**RUN},
    "lengths": {**RUN, "length_distribution": chains.TAILS[0]},
    "separate": {**RUN, "rollout": "vllm-separate", "rollout_gpus": 4},
    "generate": {**RUN, "rollout": "hf", "batch_shape": "padded"},
    "adapters": {**RUN, "finetuning": "lora"},
    "offloaded": {**RUN, "offload": "all-between-phases", "reference": "offloaded"},
    "mixture": {**RUN, "model": "Qwen/Qwen3-30B-A3B", "gpus": 16},
    "ppo": {**RUN, "method": "ppo"},
    "sft": SFT,
    "zero": {**SFT, "sharding": "zero2"},
    "nodes": {**SFT, "gpus": 64},
}
SHORT_ROWS = ("sft", "zero", "nodes")
"""Rows of 512 tokens: launches and gathers of each micro-batch are felt."""


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("what", FASTER)
def test_a_faster_card_is_never_slower(name: str, what: str) -> None:
    chain = faster(PLANS[name], what, H100)
    assert not slower(chain)
    first, last = chain[0], chain[-1]
    if what == "compute" and name in ("colocated", "lengths", "separate", "ppo"):
        # One short row at a time waits for the host's launches, whatever the card.
        chain = faster({**PLANS[name], "micro_batch_size": 16}, what, H100)
        assert chain[-1]["update"] < chain[0]["update"]
    if what == "bandwidth" and "rollout" in first:
        assert last["rollout"] < first["rollout"]
    if what == "links" and name == "separate":
        assert last["weight sync"] < first["weight sync"]


@pytest.mark.parametrize("name", ["colocated", "adapters", "mixture", *SHORT_ROWS])
def test_a_larger_micro_batch_is_never_slower(name: str) -> None:
    chain = larger(PLANS[name], "micro_batch_size", H100)
    assert not slower(chain)
    if name in SHORT_ROWS:
        assert all(after["update"] < before["update"] for before, after in pairwise(chain))


@pytest.mark.parametrize("name", ["colocated", "ppo", "mixture"])
def test_scoring_in_larger_batches_is_never_slower(name: str) -> None:
    assert not slower(larger(PLANS[name], "logprob_micro_batch_size", H100))


@pytest.mark.parametrize("name", ["colocated", "lengths", "separate", "mixture"])
@pytest.mark.parametrize("sequences", chains.SEQUENCES)
def test_eager_is_never_faster_than_graphs(name: str, sequences: int) -> None:
    eager, graphs = captured(PLANS[name], sequences, H100)
    assert graphs["rollout"] < eager["rollout"]


@pytest.mark.parametrize("name", ["colocated", "separate", "generate", "mixture", "ppo"])
@pytest.mark.parametrize("sequences", [8, 256])
def test_a_shorter_tail_is_never_slower(name: str, sequences: int) -> None:
    chain = shorter_tails(PLANS[name], sequences, H100)
    assert not slower(chain)
    assert all(after["rollout"] < before["rollout"] for before, after in pairwise(chain))


def test_lengths_below_the_cap_are_never_slower_than_the_cap() -> None:
    assert not slower([seconds(PLANS["colocated"], H100), seconds(PLANS["lengths"], H100)])


def test_a_chain_tells_which_phase_is_slower_and_by_how_much() -> None:
    chain = [{"rollout": 2.0, "update": 1.0}, {"rollout": 2.5, "update": 1.0}, {"rollout": 3.0}]
    assert slower([one | {"update": 1.0} for one in chain]) == {"rollout": pytest.approx(0.25)}


def test_exceptions_that_tables_make_are_listed() -> None:
    """All of them, over every card and model of the list: ``python -m accuracy.timings.chains``."""
    listed = {Found(*one)[:4]: one[4] for one in json.loads(FILE.read_text("utf-8"))}
    today = {one[:4]: one.slower for one in chains.exceptions()}
    for key in listed.keys() | today.keys():
        assert listed.get(key, 0.0) == pytest.approx(today.get(key, 0.0), abs=0.001), key
