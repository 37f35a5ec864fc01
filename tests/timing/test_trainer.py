"""Seconds of training passes, cause by cause, against sums made by hand.

One GPU, Qwen2.5-0.5B: 24 layers of width 896, 14 heads of 64, 2 key/value heads, MLP 4,864,
vocabulary 151,936. An H100: 989 TFLOP/s in bf16, 3.35 TB/s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks_of_cards import H100 as BENCHMARK
from planner import catalog
from planner.answer import to_json
from planner.estimate import estimate, phase_plans
from planner.formulas.communication import (
    LATE_REDUCTION,
    LATENCY,
    PIPELINE,
    all_gather_seconds,
    slowdown,
)
from planner.formulas.launches import OUTLASTING
from planner.kernels import experts_seconds, prefill_attention_seconds, products_seconds
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.term import TimeTerm
from planner.timing.phase import phase_seconds, phase_terms

CARD = catalog.gpu("h100-80gb")
LAYERS, HIDDEN, KEYS, MLP, VOCAB = 24, 896, 128, 4864, 151_936
PROJECTIONS = [(HIDDEN, HIDDEN)] * 2 + [(HIDDEN, KEYS)] * 2 + [(HIDDEN, MLP)] * 2 + [(MLP, HIDDEN)]
COPIED = 3.35e12 * 0.77
"""Bytes a second that a copy reaches."""
LASTING = 0.853
"""What kernels keep of their rate at the power limit: 1,237 of 1,450 TFLOP/s (flashinfer#2899)."""
ROWS, ROW = 4, 1024


def plan(**changes: Any) -> Plan:
    usual: dict[str, Any] = {
        "model": "Qwen/Qwen2.5-0.5B",
        "method": "sft",
        "gpus": 1,
        "sharding": "none",
        "master_dtype": "none",
        "gradient_dtype": "bf16",
        "prompts_per_step": 8,
        "prompts_per_update": 8,
        "micro_batch_size": ROWS,
        "prompt_tokens": ROW - 512,
        "response_tokens": 512,
        "batch_shape": "full",
        "attention": "sdpa",
        "gradient_checkpointing": "none",
        "logits": "full",
    }
    return Plan(**{**usual, **changes})


def terms(asked: Plan, phase: str, **facts: Any) -> dict[str, TimeTerm]:
    given = facts_of(asked)
    scene = scene_of(asked, replace(given, gpu=replace(given.gpu, **facts)))
    found = next(one for one in phase_plans(scene) if one.name == phase)
    made = phase_terms(scene, found)
    assert made is not None
    assert sum(term.seconds for term in made) == pytest.approx(phase_seconds(scene, found))
    return {term.name: term for term in made}


def took(asked: Plan, phase: str, name: str) -> float:
    return float(terms(asked, phase)[name].seconds)


@pytest.mark.parametrize(
    "changes",
    [
        {"gradient_checkpointing": "full"},
        {"gradient_checkpointing": "full", "logprob_micro_batch_size": 2},
        # Adapters drop while they train, and not while they score.
        {"finetuning": "lora", "lora_rank": 16, "lora_dropout": 0.1},
        {"reference": "copy", "kl": "loss", "master_dtype": "fp32", "gradient_dtype": "fp32"},
        {"batch_shape": "packed", "attention": "flash"},
    ],
)
def test_what_passes_share_is_what_each_would_have_alone(changes: dict[str, Any]) -> None:
    """One scene after all its phases, and a scene of its own for each."""
    usual = {"method": "grpo", "rollout": "hf", "responses_per_prompt": 8}
    asked = plan(**{**usual, "logprob_micro_batch_size": ROWS, **changes})
    together = scene_of(asked, facts_of(asked))
    phases = phase_plans(together)
    assert sum(bool(phase.work) for phase in phases) >= 4
    for at, phase in enumerate(phases):
        alone = scene_of(asked, facts_of(asked))
        assert phase_terms(together, phase) == phase_terms(alone, phase_plans(alone)[at])


def product(rows: int, inner: int, outer: int) -> float:
    short = products_seconds(CARD, rows=rows, inner=inner, outer=outer, dtype="bf16")
    assert short is not None
    return float(short / LASTING)


def test_a_forwards_products_are_those_of_its_micro_batch() -> None:
    rows = ROWS * ROW
    by_hand = 2 * LAYERS * sum(product(rows, *shape) for shape in PROJECTIONS)
    assert took(plan(), "policy forward", "GEMMs") == pytest.approx(by_hand, rel=0.01)
    small = 8 * LAYERS * sum(product(ROW, *shape) for shape in PROJECTIONS)
    one = plan(micro_batch_size=1)
    assert took(one, "policy forward", "GEMMs") == pytest.approx(small, rel=0.01)
    assert small > by_hand


def test_a_backward_swaps_widths_and_turns_tokens_into_depth() -> None:
    rows = ROWS * ROW
    by_hand = 2 * LAYERS * sum(
        product(rows, outer, inner) + product(outer, rows, inner) for inner, outer in PROJECTIONS
    )
    assert took(plan(), "policy backward", "GEMMs") == pytest.approx(by_hand, rel=0.01)


def test_attention_is_a_prefills_and_its_backward_two_and_a_half_at_less_of_the_peak() -> None:
    one = prefill_attention_seconds(
        CARD, sequences=ROWS, tokens=ROW, heads=14, kv_heads=2, head_dim=64, dtype="bf16"
    )
    forward = took(plan(), "policy forward", "attention")
    assert forward == pytest.approx(2 * LAYERS * one / LASTING, rel=1e-3)
    assert took(plan(), "policy backward", "attention") == pytest.approx(forward * 2.5 / 0.86)


def test_flash_attention_3_is_the_tables_kernel_on_hopper_and_2_runs_slower() -> None:
    second, third = plan(attention="flash"), plan(attention="flash_attention_3")
    forwards, backs = (
        [took(one, phase, "attention") for one in (second, third)]
        for phase in ("policy forward", "policy backward")
    )
    assert forwards[1] == pytest.approx(0.61 * forwards[0])
    # Two and a half times the operations at 0.80 of the forward's share, and at 0.86.
    assert backs[1] == pytest.approx(forwards[1] * 2.5 / 0.80)
    assert backs[0] == pytest.approx(forwards[0] * 2.5 / 0.86)


@pytest.mark.parametrize("gpu", ["a100-80gb", "l40s", "b200-180gb", "mi300x"])
def test_flash_attention_3_is_for_hopper(gpu: str) -> None:
    with pytest.raises(ValueError, match="FlashAttention-3 needs a Hopper GPU.* Set attention to"):
        plan(gpu=gpu, attention="flash_attention_3")
    for hopper in ("h100-80gb", "h200-141gb", "h20-96gb"):
        assert plan(gpu=hopper, attention="flash_attention_3").attention == "flash_attention_3"


def test_flash_attention_2_reaches_a_fifth_of_blackwells_own_kernel() -> None:
    """Its kernels are compiled for Ampere; torch's SDPA has cuDNN's."""
    own, second = (
        took(plan(gpu="b200-180gb", attention=how), "policy forward", "attention")
        for how in ("sdpa", "flash")
    )
    assert second == pytest.approx(own / 0.20)
    # RTX Blackwell's tables are of FlashAttention-2 itself.
    rtx, same = (
        took(plan(gpu="rtx-pro-6000-blackwell", attention=how), "policy forward", "attention")
        for how in ("sdpa", "flash")
    )
    assert rtx == same


def test_power_limits_what_lasts_by_card() -> None:
    """An H20 computes a seventh of an H100's operations at more than half its power."""
    kept = {
        key: terms(plan(gpu=key), "policy forward")["GEMMs"].inputs["sustained"]
        for key in ("h100-80gb", "h20-96gb", "a100-80gb", "rtx-4090")
    }
    assert kept == {"h100-80gb": 0.853, "h20-96gb": 0.97, "a100-80gb": 0.926, "rtx-4090": 0.97}
    assert "sustained" not in terms(plan(**ADAPTED), "policy forward")["adapters"].inputs


def test_a_mask_costs_the_whole_square() -> None:
    masked, causal = plan(batch_shape="padded"), plan()
    both_masked = (took(each, "policy forward", "attention") for each in (masked, causal))
    quotient = next(both_masked) / next(both_masked)
    assert quotient == pytest.approx(2 * ROW / (ROW + 1))
    causal = plan()
    flash, eager = plan(attention="flash"), plan(attention="eager")
    later, second = (
        terms(each, "policy forward")["attention"].inputs["share"] for each in (causal, flash)
    )
    assert second == pytest.approx(later * 65.9 / 107.8, rel=5e-3)  # FlashAttention-2 on Hopper
    both = ("attention", "elementwise kernels")
    slow, quick = (
        sum(took(each, "policy forward", name) for name in both) for each in (eager, causal)
    )
    assert slow > 2 * quick


def test_the_head_and_its_loss_by_hand() -> None:
    rows = ROWS * ROW
    found = terms(plan(logits_dtype="fp32"), "policy forward")
    products = 2 * product(rows, HIDDEN, VOCAB)
    assert found["LM head GEMMs"].seconds == pytest.approx(products, rel=0.01)
    # Cast to fp32 (6 bytes) and normalised (8).
    assert found["loss over the vocabulary"].seconds == pytest.approx(
        8 * ROW * VOCAB * 14 / COPIED
    )


def test_checkpointing_repeats_the_layers_of_a_forward() -> None:
    forward = terms(plan(), "policy forward")
    layers = ("GEMMs", "attention", "elementwise kernels")
    name = "recompute"
    again = took(plan(gradient_checkpointing="full"), "policy backward", name)
    assert again == pytest.approx(sum(forward[name].seconds for name in layers))


@pytest.mark.parametrize("phase", ["policy forward", "policy backward"])
@pytest.mark.parametrize("switch", ["compile", "liger"])
def test_fused_kernels_are_never_slower(phase: str, switch: str) -> None:
    for sizes in ({}, {"micro_batch_size": 1, "prompt_tokens": 16, "response_tokens": 16}):
        eager, fused = (
            sum(one.seconds for one in terms(plan(**sizes, **{switch: on}), phase).values())
            for on in (False, True)
        )
        assert fused < eager


def test_gradients_of_each_further_micro_batch_are_added_up() -> None:
    parameters = 494_032_768
    once = took(plan(), "policy backward", "gradient accumulation")
    assert once == pytest.approx(1 * parameters * 3 * 2 / COPIED)
    many = took(plan(micro_batch_size=1), "policy backward", "gradient accumulation")
    assert many == pytest.approx(7 * once)


def test_autocast_casts_every_matrix_in_each_micro_batch() -> None:
    wide = plan(master_dtype="fp32", gradient_dtype="fp32")
    matrices = LAYERS * sum(inner * outer for inner, outer in PROJECTIONS)
    assert took(wide, "policy forward", "autocast weight casts") == pytest.approx(
        2 * matrices * 6 / COPIED
    )


def test_autocast_to_fp16_computes_in_fp16() -> None:
    """It had no time on cards without bf16, which are those that need it."""
    wide = plan(master_dtype="fp32", gradient_dtype="fp32", dtype="fp16", gpu="t4")
    products = terms(wide, "policy forward")["GEMMs"]
    assert products.inputs["peak_flops_per_second"] == 65e12  # of fp16; T4 has no bf16
    there = {name: plan(master_dtype="fp32", gradient_dtype="fp32", dtype=name) for name in HALVES}
    first, second = (took(there[name], "policy backward", "GEMMs") for name in HALVES)
    assert first == pytest.approx(second)


HALVES = ("bf16", "fp16")
ADAPTED: dict[str, Any] = {"finetuning": "lora", "lora_rank": 16, "lora_targets": "all-linear"}


def test_adapters_are_narrow_products_and_spare_the_weights_gradients() -> None:
    backward = terms(plan(**ADAPTED), "policy backward")
    rows = ROWS * ROW
    by_hand = 2 * LAYERS * sum(product(rows, outer, inner) for inner, outer in PROJECTIONS)
    assert backward["GEMMs"].seconds == pytest.approx(by_hand, rel=0.01)
    narrow = backward["adapters"].inputs
    assert narrow["share"] < 0.2 < backward["GEMMs"].inputs["share"]
    # Both matrices of each, twice on the way back.
    wide = LAYERS * sum(inner + outer for inner, outer in PROJECTIONS)
    assert narrow["flops"] == pytest.approx(2 * 2 * 2 * rows * 16 * wide)


def test_four_bits_are_made_whole_at_each_use() -> None:
    four = plan(**{**ADAPTED, "finetuning": "qlora"})
    matrices = LAYERS * sum(inner * outer for inner, outer in PROJECTIONS)
    name = "4-bit weights made whole"
    assert took(four, "policy forward", name) == pytest.approx(2 * matrices * 2.5 / COPIED)
    twice = four.changed(gradient_checkpointing="full")
    assert took(twice, "policy backward", name) == 2 * took(four, "policy forward", name)


def test_experts_run_by_the_tokens_that_meet_them() -> None:
    mixture = plan(model="Qwen/Qwen3-30B-A3B", gpus=8, sharding="fsdp2", prompts_per_step=64,
                   prompts_per_update=64)  # fmt: skip
    one = experts_seconds(
        CARD, tokens=ROWS * ROW, hidden=2048, expert_intermediate=768, experts=128,
        experts_per_token=8, dtype="bf16",
    )  # fmt: skip
    twice = 2 * 48 * one / LASTING
    assert took(mixture, "policy forward", "experts") == pytest.approx(twice, rel=0.01)
    assert took(mixture, "policy backward", "experts") == pytest.approx(2 * twice, rel=0.01)


def test_a_benchmarks_share_stands_alone() -> None:
    """It is of whole layers: norms, casts and losses are in it already."""
    phases = {one.name: one for one in estimate(plan(), BENCHMARK).phases}
    names = [term.name for term in phases["policy forward"].times]
    assert names == ["computation", "kernel launch overhead"]
    linear = LAYERS * sum(inner * outer for inner, outer in PROJECTIONS) + HIDDEN * VOCAB
    pairs = LAYERS * 4 * HIDDEN * ROW * (ROW + 1) / 2
    flops = 8 * (2 * linear * ROW + pairs)
    assert phases["policy forward"].seconds == pytest.approx(flops / (989.4e12 * 0.3), rel=2e-3)


@pytest.mark.parametrize("phase", ["policy forward", "policy backward", "optimizer step"])
def test_more_bandwidth_is_never_slower(phase: str) -> None:
    long = plan(micro_batch_size=8, prompt_tokens=3584)
    seconds = [
        sum(one.seconds for one in terms(long, phase, bandwidth_bytes_per_second=each).values())
        for each in (3.35e12, 4e12, 8e12)
    ]
    assert seconds[0] > seconds[1] > seconds[2]


def test_what_nobody_measured_has_no_time() -> None:
    asked = plan()
    scene = scene_of(asked, replace(facts_of(asked), gpu=catalog.gpu("v100-16gb")))
    found = {phase.name: phase_terms(scene, phase) for phase in phase_plans(scene)}
    assert found["policy forward"] is None


def test_a_pipeline_by_hand() -> None:
    """Ten layers of 3 s beside 2 s of traffic: what it hides behind takes 1.8 times as long."""
    sizes = {"rounds": 2, "first_seconds": 1.0, "layers": 10, "last_seconds": 0.5, "slowdown": 1.8}
    sizes["idle_seconds"] = 0.0
    hidden = PIPELINE(**sizes, traffic_seconds=2.0, collective_seconds=2.0, layer_seconds=3.0)
    assert hidden == pytest.approx(2 * (1.0 + 9 * 2 * (1 - 1 / 1.8) + 0.5))
    seen = PIPELINE(**sizes, traffic_seconds=8.0, collective_seconds=8.0, layer_seconds=3.0)
    assert seen == pytest.approx(2 * (1.0 + 9 * 5 + 0.5))
    copies = PIPELINE(**sizes, traffic_seconds=2.0, collective_seconds=0.0, layer_seconds=3.0)
    assert copies == pytest.approx(3.0)
    # A card that waits half a second a layer for its launches is that much less behind, or not.
    waits = {"traffic_seconds": 2.0, "collective_seconds": 2.0, "layer_seconds": 3.0}
    half = PIPELINE(**{**sizes, "idle_seconds": 0.5}, **waits)
    assert half == pytest.approx(hidden - 2 * 9 * 0.5)
    assert PIPELINE(**{**sizes, "idle_seconds": 1.0}, **waits) == pytest.approx(3.0)


def test_collectives_slow_nothing_down_while_the_card_waits_for_launches() -> None:
    sharded = {"gpus": 8, "sharding": "fsdp2", "prompts_per_step": 64, "prompts_per_update": 64}
    found = terms(plan(**sharded, micro_batch_size=1), "policy backward")
    waited = sum(found[name].seconds for name in OUTLASTING)
    (behind,) = (one.inputs for one in found.values() if "idle_seconds" in one.inputs)
    assert behind["idle_seconds"] == pytest.approx(waited / 8 / LAYERS)
    replicas = terms(plan(**{**sharded, "sharding": "ddp"}, micro_batch_size=1), "policy backward")
    launched = replicas[OUTLASTING[0]].seconds
    assert replicas[LATE_REDUCTION.name].inputs["idle_seconds"] == pytest.approx(launched / 8)


def test_replicas_reduce_once_an_update_and_the_last_bucket_is_seen() -> None:
    whole = {"updates": 1, "slowdown": 1.0, "bucket_seconds": 0.01, "idle_seconds": 0.0}
    assert LATE_REDUCTION(**whole, reduce_seconds=0.5, backward_seconds=2.0) == 0.01
    assert LATE_REDUCTION(**whole, reduce_seconds=2.5, backward_seconds=2.0) == 0.5
    ddp = plan(gpus=8, sharding="ddp", prompts_per_step=64, prompts_per_update=64)
    one, four = (terms(ddp.changed(micro_batch_size=n), "policy backward") for n in (8, 2))
    name = LATE_REDUCTION.name
    assert one[name].inputs["updates"] == four[name].inputs["updates"] == 1
    assert four[name].inputs["backward_seconds"] < one[name].inputs["backward_seconds"]


def test_collectives_over_slots_are_seen_and_smaller_micro_batches_see_more() -> None:
    sizes = {"gpus": 8, "sharding": "fsdp2", "prompts_per_step": 64, "prompts_per_update": 64}
    name = "exposed all-gather and reduce-scatter"
    linked = took(plan(**sizes), "policy backward", name)
    slots = took(plan(**sizes, gpu="h100-80gb-pcie"), "policy backward", name)
    small = took(plan(**sizes, micro_batch_size=1), "policy backward", name)
    assert slots > 3 * linked and small > 2 * linked
    assert slowdown(CARD) == 1.8 and slowdown(catalog.gpu("l40s")) == 1.1


def test_a_ring_closes_later_over_many_nodes() -> None:
    hops = LATENCY(
        latency_seconds=13.6e-6, nodes=64, gpus_per_node=8, network_hop_seconds=14e-6,
        link_hop_seconds=3.4e-6,
    )  # fmt: skip
    assert hops == pytest.approx(13.6e-6 + 63 * (14e-6 + 7 * 3.4e-6))
    tiny = all_gather_seconds(CARD, size_bytes=8, ranks=512, gpus_per_node=8)
    assert tiny == pytest.approx(hops, rel=1e-3)


def test_an_update_reads_and_writes_what_its_implementation_does() -> None:
    parameters = 494_032_768
    wide = {"master_dtype": "fp32", "gradient_dtype": "fp32"}
    fused = took(plan(**wide), "optimizer step", "optimizer step")
    assert fused == pytest.approx(parameters * (6 * 4 + 4) / COPIED)
    each = took(plan(**wide, optimizer="adamw-foreach"), "optimizer step", "optimizer step")
    assert each == pytest.approx(parameters * (20 * 4 + 4) / COPIED)
    small = took(plan(**wide, optimizer="adamw-8bit"), "optimizer step", "optimizer step")
    assert small == pytest.approx(parameters * (2 * 4 + 4 + 4) / COPIED)
    clipped = took(plan(**wide), "optimizer step", "gradient clipping")
    assert clipped == pytest.approx(parameters * 12 / COPIED)


def test_gradients_used_in_the_backward_are_never_clipped() -> None:
    early = terms(plan(optimizer_step="in-backward", micro_batch_size=8), "policy backward")
    assert "gradient clipping" not in early and "optimizer step" in early


def test_a_backwards_products_have_an_interval_of_their_own() -> None:
    """An H100's took 0.93 to 1.21 of a forward's: 0.8 to 1.1 of its share are told."""
    mixture = {"model": "Qwen/Qwen3-30B-A3B", "gpus": 8, "sharding": "fsdp2"}
    sizes = {"prompts_per_step": 64, "prompts_per_update": 64}
    products = {"GEMMs", "experts", "adapters", "LM head GEMMs"}
    for asked in (plan(), plan(**ADAPTED), plan(**mixture, **sizes), plan(attention="eager")):
        backward = terms(asked, "policy backward")
        eager = asked.attention == "eager"
        for name in (products | ({"attention"} if eager else set())) & backward.keys():
            one = backward[name]
            assert one.low == pytest.approx(one.seconds / 1.1)
            if name != "experts":  # which have a loop at their upper end
                assert one.high == pytest.approx(one.seconds / 0.8)
        forward = terms(asked, "policy forward").values()
        host = "kernel launch", "FSDP2 hook"
        kernels = [one for one in forward if not one.name.startswith((*host, "experts"))]
        assert all(one.low is None and one.high is None for one in kernels)


def test_attentions_backward_reaches_two_thirds_to_all_of_its_forward() -> None:
    forward, back = (
        terms(plan(), phase)["attention"] for phase in ("policy forward", "policy backward")
    )
    assert back.low == pytest.approx(2.5 * forward.seconds)
    assert back.high == pytest.approx(2.5 * forward.seconds / 0.66)
    third = terms(plan(attention="flash_attention_3"), "policy backward")["attention"]
    assert third.low / third.seconds == pytest.approx(0.80)


def test_an_answer_has_each_causes_own_interval() -> None:
    [backward] = (
        one for one in to_json(estimate(plan()))["phases"] if one["name"] == "policy backward"
    )
    times = {one["name"]: one for one in backward["times"]}
    own = times["GEMMs"]
    assert own["low_seconds"] < own["seconds"] < own["high_seconds"]
    assert times["loss over the vocabulary"]["low_seconds"] is None
