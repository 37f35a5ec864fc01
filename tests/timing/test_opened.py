"""A cause of time opens to its kernels: they add up to it, and each is what a look-up gives."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from planner.catalog import gpu
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.formulas.passes import RECOMPUTED
from planner.kernels import (
    decode_attention_seconds,
    experts_seconds,
    prefill_attention_seconds,
    products_seconds,
)
from planner.plan import Plan
from planner.speeds import Speed, Speeds
from planner.term import TimeTerm
from planner.timing import look_ups
from planner.timing.look_ups import CURVE, LASTING, MONOTONE, PAIRS
from planner.timing.opened import Opened, opened, opened_json

H100 = gpu("h100-80gb")
TYPICAL = "1~lognormal_700~600"
DENSE: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-1.5B",
    "method": "grpo",
    "rollout": "vllm-colocated",
    "gpus": 8,
    "prompts_per_step": 64,
    "prompts_per_update": 64,
    "micro_batch_size": 4,
}
MIXTURE = {**DENSE, "model": "Qwen/Qwen3-30B-A3B"}
SPREAD = {"rollout_tensor_parallel": 4, "rollout_expert_parallel": True}
PLANS: dict[str, dict[str, Any]] = {
    "dense": DENSE,
    "packed, checkpointed": {**DENSE, "batch_shape": "packed", "attention": "flash"},
    "eager attention": {**DENSE, "attention": "eager", "gradient_checkpointing": "none"},
    "adapters": {**DENSE, "finetuning": "lora", "lora_rank": 32},
    "mixture": MIXTURE,
    "mixture, experts spread": {**MIXTURE, **SPREAD},
    "fp8 engine": {**MIXTURE, "framework": "verl", "rollout_quantization": "fp8", **SPREAD},
    "fp8 cache": {**DENSE, "kv_cache_dtype": "fp8"},
    "a borrowed card": {**DENSE, "gpu": "rtx-4090"},
    "a borrowed card, mixture": {**MIXTURE, "gpu": "h20-96gb"},
    "full precision": {**DENSE, "dtype": "fp32", "gpu": "l40s"},
    "lengths": {**DENSE, "length_distribution": TYPICAL, "rollout_tensor_parallel": 2},
    "transformers generates": {**DENSE, "rollout": "hf", "length_distribution": TYPICAL},
    "windows": {**DENSE, "model": "google/gemma-2-2b", "gpu": "a100-80gb"},
    "preempted": {**DENSE, "gpu_memory_utilization": 0.15, "response_tokens": 16_384},
    "a cause of a measured layer": {**DENSE, "model": "deepseek-ai/DeepSeek-V2-Lite"},
}
TABLES = {
    "products": products_seconds,
    "prefill": prefill_attention_seconds,
    "decode": decode_attention_seconds,
    "experts": experts_seconds,
}


def plan(name: str, **more: Any) -> Plan:
    return Plan(**{**PLANS[name], **more})


def opened_terms(footprint: Footprint) -> list[tuple[TimeTerm, Opened]]:
    terms = (term for phase in footprint.phases for term in phase.times)
    return [(term, found) for term in terms if (found := opened(term)) is not None]


def term(footprint: Footprint, phase: str, name: str) -> TimeTerm:
    (found,) = (one for one in footprint.phases if one.name == phase)
    return next(one for one in found.times if one.name == name)


@pytest.mark.parametrize("name", PLANS)
def test_kernels_add_up_to_their_term(name: str) -> None:
    found = opened_terms(estimate(plan(name)))
    assert len({term.name for term, _ in found}) >= 5
    for term, one in found:
        assert one.seconds == pytest.approx(term.seconds, rel=1e-9), term.name
        assert one.kernels and all(kernel.found.rows for kernel in one.kernels)
        if term.name in ("GEMMs", "experts", "attention", "adapters"):
            assert not one.beside
            assert one.kernel_seconds == pytest.approx(term.seconds, rel=1e-9)


@pytest.mark.parametrize("name", PLANS)
def test_a_kernel_takes_what_its_look_up_says(name: str) -> None:
    for _, one in opened_terms(estimate(plan(name))):
        for kernel in one.kernels:
            asked = kernel.asked
            each = TABLES[asked.kind](asked.gpu, **asked.sizes)
            assert kernel.found.seconds == pytest.approx(each, rel=1e-12)
            factors = math.prod(asked.factors.values())
            assert kernel.seconds == pytest.approx(each * asked.runs * factors, rel=1e-12)
            # A curve over rows is drawn closely enough to be read.
            assert 0.9 < asked.factors.get(CURVE, 1.0) < 1.1
            assert 0.6 < asked.factors.get(MONOTONE, 1.0) < 1.2


def test_every_kind_of_cause_that_tables_decide_opens() -> None:
    names = {term.name for name in PLANS for term, _ in opened_terms(estimate(plan(name)))}
    assert names >= {
        *("GEMMs", "attention", "experts", "adapters", "LM head GEMMs"),
        *("recompute", "prefill", "prefill attention"),
        *("decode GEMMs", "decode attention", "head and sampler"),
        *("waiting for the longest", "recomputation of preempted sequences"),
    }


def test_products_by_hand() -> None:
    """28 layers of Qwen2.5-1.5B over rows that a curve has a point at: no factor but power's."""
    asked = plan("dense", prompt_tokens=512, response_tokens=512, batch_shape="full")
    found = opened(term(estimate(asked), "policy forward", "GEMMs"))
    assert found is not None
    runs = {
        (one.asked.sizes["inner"], one.asked.sizes["outer"]): one.asked.runs
        for one in found.kernels
    }
    micro_batches = 64 * asked.responses_per_prompt / 8 / 4
    times = 28 * micro_batches
    assert runs == pytest.approx(
        {
            (1536, 8960): 2 * times,
            (8960, 1536): times,
            (1536, 1536): 2 * times,
            (1536, 256): 2 * times,
        }
    )
    assert all(one.asked.sizes["rows"] == 4096 for one in found.kernels)
    assert all(set(one.asked.factors) == {LASTING} for one in found.kernels)
    gate = next(one for one in found.kernels if one.asked.sizes["outer"] == 8960)
    each = products_seconds(H100, rows=4096, inner=1536, outer=8960, dtype="bf16")
    assert gate.seconds == pytest.approx(2 * times * each / 0.853)
    assert found.kernels[0] in (gate, next(one for one in found.kernels if one is not gate))
    assert [one.seconds for one in found.kernels] == sorted(
        (one.seconds for one in found.kernels), reverse=True
    )


def test_a_backward_has_products_of_both_gradients() -> None:
    asked = plan("dense", prompt_tokens=512, response_tokens=512, batch_shape="full")
    found = opened(term(estimate(asked), "policy backward", "GEMMs"))
    assert found is not None
    sizes = {tuple(one.asked.sizes[key] for key in ("rows", "inner", "outer")) for one in found[0]}
    assert (4096, 8960, 1536) in sizes and (8960, 4096, 1536) in sizes


def test_attention_says_which_pairs_it_computes() -> None:
    """A mask that is given is computed whole: about twice the causal half that was measured."""
    masked = opened(term(estimate(plan("dense")), "policy forward", "attention"))
    causal = opened(
        term(estimate(plan("dense", batch_shape="full")), "policy forward", "attention")
    )
    assert masked is not None and causal is not None
    assert masked.kernels[0].asked.factors[PAIRS] == pytest.approx(2, rel=1e-2)
    assert PAIRS not in causal.kernels[0].asked.factors


def test_a_checkpointed_forward_is_the_forwards_kernels_again() -> None:
    found = estimate(plan("dense", gradient_checkpointing="full"))
    once = opened(term(found, "policy forward", "GEMMs"))
    again = opened(term(found, "policy backward", "recompute"))
    assert once is not None and again is not None
    seconds = {tuple(one.asked.sizes.values()): one.seconds for one in again.kernels}
    for one in once.kernels:
        assert seconds[tuple(one.asked.sizes.values())] == pytest.approx(one.seconds)
    assert [one.name for one in again.beside] == ["elementwise kernels"]


def test_a_forward_that_runs_twice_again_has_each_kernel_twice() -> None:
    forward = next(
        phase.times for phase in estimate(plan("mixture")).phases if phase.name == "policy forward"
    )
    seconds = sum(one.seconds for one in forward)
    twice = RECOMPUTED.term(
        "policy", times=2, forward_seconds=seconds, look_ups=(look_ups.again, forward, 2)
    )
    found = opened(twice)
    assert found is not None and found.seconds == pytest.approx(2 * seconds)
    once = opened(next(one for one in forward if one.name == "experts"))
    assert once is not None
    experts = next(one for one in found.kernels if one.asked.kind == "experts")
    assert experts.asked.runs == pytest.approx(2 * once.kernels[0].asked.runs)


def test_a_windows_rows_are_of_windows() -> None:
    found = opened(term(estimate(plan("windows")), "rollout", "decode attention"))
    assert found is not None
    windows = [one.asked.sizes["window"] for one in found.kernels]
    assert sorted(windows) == [0, 4096]
    for one in found.kernels:
        named = one.found.rows[0].sizes
        assert ("window" in named) == bool(one.asked.sizes["window"])


def test_a_lender_is_named_with_what_it_is_asked_at() -> None:
    found = opened(term(estimate(plan("a borrowed card")), "policy forward", "GEMMs"))
    assert found is not None
    one = found.kernels[0].found
    assert one.tables.card == "l40s" and not one.tables.own
    assert one.stretch == pytest.approx(864 / 1008) and one.gain > 1.3


def test_full_precision_and_8_bits_borrow_no_gain_of_half_precision() -> None:
    for changes in ({"dtype": "fp32"}, {"rollout_quantization": "fp8", "framework": "verl"}):
        asked = plan("a borrowed card", **changes)
        where = ("policy forward", "GEMMs")
        if "framework" in changes:
            where = ("rollout", "decode GEMMs")
        found = opened(term(estimate(asked), *where))
        assert found is not None and {one.found.gain for one in found.kernels} == {1.0}


def test_a_cards_own_benchmark_is_named() -> None:
    measured = (Speed(key="decode-bandwidth", low=0.6, typical=0.6, high=0.6),)
    own = Speeds(gpu="h100-80gb", torch="2.13.0", driver="", date="2026-01-01", speeds=measured)
    found = opened(term(estimate(plan("dense"), own), "rollout", "decode attention"))
    assert found is not None and found.kernels[0].found.benchmark == own.words


def test_waiting_for_the_longest_lists_what_is_really_decoded() -> None:
    waited = term(estimate(plan("lengths")), "rollout", "waiting for the longest")
    found = opened(waited)
    assert found is not None and waited.seconds > 0
    contexts = {
        one.asked.sizes["context_tokens"] for one in found.kernels if one.asked.kind == "decode"
    }
    assert len(contexts) > 5
    assert found.kernel_seconds > waited.seconds / 2
    filled = next(one for one in found.beside if one.seconds < 0)
    assert -filled.seconds == pytest.approx(waited.inputs["busy_seconds"])


def test_what_no_table_has_does_not_open() -> None:
    footprint = estimate(plan("dense"))
    for name in ("elementwise kernels", "loss over the vocabulary"):
        assert opened(term(footprint, "policy forward", name)) is None


def test_programs_get_every_kernel() -> None:
    found = opened(term(estimate(plan("lengths")), "rollout", "waiting for the longest"))
    assert found is not None
    said = json.loads(json.dumps(opened_json(found)))
    assert len(said["kernels"]) == len(found.kernels)
    total = sum(one["seconds"] for one in (*said["kernels"], *said["beside"]))
    assert total == pytest.approx(found.seconds)
    first = said["kernels"][0]
    assert first["nearest"][0]["milliseconds"] > 0 and first["measured_under"].startswith("vLLM")


def test_equal_plans_have_equal_answers() -> None:
    """Terms carry how their kernels are found, and compare by value as before."""
    for name in ("mixture", "lengths", "transformers generates"):
        assert estimate(plan(name)) == estimate(plan(name))
