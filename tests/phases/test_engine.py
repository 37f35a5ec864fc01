"""A rollout engine beside the trainer: what it keeps asleep, and what real requests need.

Expected sizes are what vLLM logged when it started (0.19 on an H100 of 79.19 GiB, 8,192 batched
tokens, 1,024 sequences; llm-d-planner's accuracy results at d3121e0), not this project's.
"""

from __future__ import annotations

import numpy as np
import pytest

from planner.estimate import estimate
from planner.footprint import Phase
from planner.phases import engine
from planner.phases.scene import Scene, scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.term import POOL, Term
from planner.units import GIB, MIB

STARTED = {
    "method": "grpo",
    "rollout": "vllm-colocated",
    "gpu": "h100-80gb",
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 1024,
    "gpu_memory_utilization": 0.95,
    "vllm_sleep_level": 1,
}


def scene(**changes: object) -> Scene:
    plan = Plan(**{**STARTED, **changes})  # type: ignore[arg-type]
    return scene_of(plan, facts_of(plan))


def named(terms: tuple[Term, ...], name: str) -> int:
    return sum(int(term.bytes) for term in terms if term.name == name)


def phase(plan: Plan, name: str) -> Phase:
    return next(one for one in estimate(plan).phases if one.name == name)


@pytest.mark.parametrize(
    ("most", "sizes"), [(512, 51), (256, 35), (32, 7), (8, 4), (3, 2), (1, 1)]
)
def test_captured_sizes_are_those_vllm_lists(most: int, sizes: int) -> None:
    """1, 2, 4, then by 8, from 256 by 16: its logs say 51 up to 512, and 35 up to 256."""
    assert engine.captured_sizes(most) == sizes
    assert list(engine.captured_sizes(np.asarray([most, 512]))) == [sizes, 51]


@pytest.mark.parametrize(
    ("model", "gib"),
    [
        ("Qwen/Qwen2.5-7B", 2.21),
        ("meta-llama/Llama-3.1-8B", 1.89),
        ("Qwen/Qwen3-8B", 2.21),
        ("mistralai/Mistral-Small-24B-Base-2501", 2.03),
    ],
)
def test_the_profile_runs_peak_is_what_vllm_logged(model: str, gib: float) -> None:
    found = engine._working_set(scene(model=model), 8192).bytes / GIB
    assert found == pytest.approx(gib, rel=0.03)


def test_experts_need_their_workspace_beside_the_profile_runs_peak() -> None:
    """2.68 GiB for Qwen3-30B-A3B: with neither part would it be more than 2.2."""
    found = scene(model="Qwen/Qwen3-30B-A3B", gpus=8)
    workspace = named(engine._kept(found), "vLLM expert workspace")
    peak = workspace + engine._working_set(found, 8192).bytes
    assert peak / GIB == pytest.approx(2.68, rel=0.1)


def test_the_cache_pool_is_what_vllm_logged_but_for_graphs() -> None:
    """58.53 GiB of cache beside 0.87 of graphs, which this version did not count into its share.

    The share is of the card as PyTorch sees it there; ours is as the driver reports it.
    """
    terms = engine.awake(scene(model="Qwen/Qwen2.5-7B", gpu="custom", gpu_bytes=int(79.19 * GIB)))
    pool, graphs = named(terms, "vLLM KV cache"), named(terms, "vLLM CUDA graphs")
    assert (pool + graphs) / GIB == pytest.approx(58.53, rel=0.01)


def test_graphs_are_bounded_by_the_logs_they_come_from() -> None:
    (graphs,) = (
        term for term in engine._kept(scene()) if term.name == "vLLM CUDA graphs"
    )
    assert graphs.low is not None and graphs.low < 0.87 * GIB < graphs.high
    assert graphs.bytes / GIB == pytest.approx(0.87, rel=0.1)
    assert graphs.high / graphs.bytes < 1.1
    (mixture,) = (
        term
        for term in engine._kept(scene(model="Qwen/Qwen3-30B-A3B"))
        if term.name == graphs.name
    )
    assert mixture.high is not None and mixture.bytes < 1.41 * GIB < mixture.high
    few = engine._kept(scene(max_num_seqs=4, responses_per_prompt=4))
    assert named(few, "vLLM CUDA graphs") < graphs.bytes / 10
    assert not named(engine._kept(scene(enforce_eager=True)), "vLLM CUDA graphs")


def test_a_sleeping_engine_has_communicators_only_over_several_gpus() -> None:
    alone, spread = scene(gpus=8), scene(gpus=8, rollout_tensor_parallel=2)
    library = [named(engine._kept(one), "vLLM libraries") / GIB for one in (alone, spread)]
    assert library[0] < 0.5 < 2 < library[1]


def test_no_share_is_refused_for_graphs_with_adapters() -> None:
    """verl's 14B ran with adapters in a quarter of two H100: 0.9 GiB short with both sets."""
    ran = {
        "model": "Qwen/Qwen2.5-14B", "framework": "verl", "gpus": 2, "rollout_tensor_parallel": 2,
        "gpu_memory_utilization": 0.25, "prompt_tokens": 512, "response_tokens": 1024,
        "batch_shape": "packed",
    }  # fmt: skip
    shorts = [
        engine.shortfall_bytes(scene(**{**ran, "finetuning": tuned, "gpu_memory_utilization": 0.2}))
        for tuned in ("full", "lora")
    ]
    assert shorts[0] == shorts[1] > 0
    assert engine.shortfall_bytes(scene(**ran, finetuning="lora")) == 0


def test_sleep_keeps_neither_weights_nor_cache() -> None:
    plan = Plan(**STARTED, model="Qwen/Qwen2.5-7B", gpus=8)  # type: ignore[arg-type]
    asleep = phase(plan, "policy backward")
    assert {term.name for term in asleep.terms if term.category == "engine"} == {
        "vLLM libraries",
        "vLLM CUDA graphs",
        "vLLM input buffers",
    }


def test_embeddings_of_the_largest_batch_are_beside_the_share() -> None:
    """vLLM's model runner makes them before it begins to count: 64 MiB by its issue 35023."""
    found = scene(model="Qwen/Qwen3-8B", max_num_batched_tokens=8192)
    awake = engine.awake(found)
    assert named(awake, "vLLM input buffers") == 64 * MIB
    pool = engine.share_bytes(found) - sum(part.bytes for part in (*engine._kept(found), awake[0]))
    profiled = engine._working_set(found, 8192).bytes
    assert named(awake, "vLLM KV cache") == pool - profiled


@pytest.mark.parametrize(("framework", "served"), [("plain", True), ("trl", False), ("verl", True)])
def test_an_engine_that_serves_adapters_captures_twice(framework: str, served: bool) -> None:
    """2.38 GiB where 0.76 are without adapters (vllm pull request 25914); TRL merges them."""
    full = scene(framework=framework, gpus=8)
    adapters = scene(framework=framework, gpus=8, finetuning="lora")
    plain, more = (named(engine._kept(one), "vLLM CUDA graphs") for one in (full, adapters))
    assert more / plain == pytest.approx(2.38 / 0.76 if served else 1, rel=1e-3)


def test_libraries_of_an_engine_with_adapters_are_bounded_by_the_threads_of_a_card() -> None:
    """1.39 GiB were logged on an A100 of 108 * 2,048 threads; an L4 has 58 * 1,536."""

    def high(gpu: str, **changes: object) -> float:
        found = engine._kept(scene(gpu=gpu, finetuning="lora", **changes))
        (libraries,) = (term for term in found if term.name == "vLLM libraries")
        assert libraries.high is not None
        return float(libraries.high / GIB)

    assert high("a100-80gb") == pytest.approx(1.39)
    assert high("l4") == pytest.approx(0.25 + 1.14 * 58 * 1536 / (108 * 2048))
    assert high("a100-80gb", framework="trl") == pytest.approx(0.46)


def test_only_verls_engine_has_a_context_of_its_own() -> None:
    """verl 0.9.1 starts vLLM with distributed_executor_backend mp; TRL's is in the trainer."""
    contexts = {
        name: sum(
            term.name == "CUDA context"
            for term in phase(Plan(method="grpo", framework=name, gpus=8), "policy backward").terms
        )
        for name in ("plain", "trl", "verl")
    }
    assert contexts["verl"] == contexts["plain"] + 1 == contexts["trl"] + 1


def test_real_prompts_need_less_than_the_profile_run_and_the_pool_does_not_grow() -> None:
    """Sixteen prompts of 1,024 tokens, an engine profiled with 65,536: the rest is given back."""
    found = scene(
        gpus=1, prompts_per_step=1, responses_per_prompt=16, max_num_seqs=16,
        prompt_tokens=1024, response_tokens=3072, max_num_batched_tokens=65_536,
    )  # fmt: skip
    awake = engine.awake(found)
    working = named(awake, "vLLM working memory")
    assert working == engine._working_set(found, 16 * 1024).bytes
    saved = engine._working_set(found, 65_536).bytes - working
    buffers = named(awake, "vLLM input buffers")
    assert sum(int(term.bytes) for term in awake) == engine.share_bytes(found) - saved + buffers


def test_the_first_rollout_is_told_apart_from_later_ones() -> None:
    """A full fine-tuning's AdamW keeps two fp32 moments of 7.6 billion weights over eight GPUs."""
    plan = Plan(**STARTED | {"gpu_memory_utilization": 0.4}, model="Qwen/Qwen2.5-7B", gpus=8)  # type: ignore[arg-type]
    found = estimate(plan)
    (said,) = (note for note in found.notes if note.startswith("The first rollout"))
    words = [float(word) for word in said.split() if word.replace(".", "", 1).isdigit()]
    assert words[1] - words[0] == pytest.approx(2 * 4 * 7.616e9 / 8 / GIB, abs=0.11)
    away = estimate(plan.changed(offload="optimizer-between-phases"))
    assert not any(note.startswith("The first rollout") for note in away.notes)


@pytest.mark.parametrize(
    ("model", "spread", "gib"),
    [
        ("Qwen/Qwen2.5-7B", 1, 8.14),  # RedHatAI's fp8-dynamic
        ("meta-llama/Llama-3.1-8B", 1, 8.49),  # --quantization fp8
        ("meta-llama/Llama-3.3-70B-Instruct", 2, 33.88),  # RedHatAI's, of 0.11
    ],
)
def test_fp8_weights_are_what_vllm_loads(model: str, spread: int, gib: float) -> None:
    """Linear weights of the layers in a byte, embeddings and head in two; scales are left out."""
    found = scene(model=model, rollout_quantization="fp8", rollout_tensor_parallel=spread)
    weights = named(engine.awake(found), "vLLM weights") / GIB
    assert weights == pytest.approx(gib, rel=0.006) and weights < gib


def test_fp8_weights_leave_room_for_the_cache_and_decode_faster() -> None:
    plan = Plan(**{**STARTED, "gpu_memory_utilization": 0.5})  # type: ignore[arg-type]
    smaller = plan.changed(rollout_quantization="fp8")
    was, now = (engine.awake(scene_of(one, facts_of(one))) for one in (plan, smaller))
    saved = named(was, "vLLM weights") - named(now, "vLLM weights")
    assert named(now, POOL) - named(was, POOL) == saved > 6 * GIB
    assert phase(smaller, "rollout").device_bytes == phase(plan, "rollout").device_bytes
    times = [
        {term.name: float(term.seconds) for term in phase(one, "rollout").times}
        for one in (plan, smaller)
    ]
    for name, seconds in times[0].items():
        if name in ("decode GEMMs", "prefill"):
            assert 0.4 * seconds < times[1][name] < 0.85 * seconds
        else:
            assert times[1][name] == pytest.approx(seconds), name


def test_fp8_needs_a_card_that_has_it() -> None:
    with pytest.raises(ValueError, match="A100 40GB.* has no fp8 tensor cores"):
        Plan(gpu="a100-40gb", rollout_quantization="fp8")
    with pytest.raises(ValueError, match="MI250X.* has no fp8 tensor cores"):
        Plan(gpu="mi250x", rollout_quantization="fp8")
    for card in ("l40s", "h100-80gb", "b200-180gb", "mi300x"):
        assert estimate(Plan(gpu=card, rollout_quantization="fp8")).step_seconds
    assert Plan(gpu="a100-40gb", method="sft", rollout_quantization="fp8").rollout == "none"


@pytest.mark.parametrize(("apart", "gib"), [({}, 2), ({"rollout_gpus": 4}, 4)])
def test_verl_sends_weights_through_one_bucket_or_two_to_other_gpus(
    apart: dict[str, int], gib: int
) -> None:
    rollout = "vllm-separate" if apart else "vllm-colocated"
    plan = Plan(framework="verl", method="grpo", gpus=8, rollout=rollout, **apart)
    terms = phase(plan, "weight sync").terms
    assert named(terms, "weight sync bucket") == gib * GIB
    smaller = phase(plan.changed(sync_bucket_bytes=GIB // 2), "weight sync").terms
    assert named(smaller, "weight sync bucket") == gib * GIB // 4
    # TRL has none, so one that the plan names is counted, and said.
    trl = Plan(framework="trl")
    assert "weight sync bucket" not in [term.name for term in phase(trl, "weight sync").terms]
    asked = trl.changed(sync_bucket_bytes=GIB)
    assert named(phase(asked, "weight sync").terms, "weight sync bucket") == GIB
    assert estimate(asked).assumptions == (
        "weight sync: TRL sends weights to vLLM without a bucket; the plan's bucket is counted",
    )


def test_whole_experts_have_a_workspace_that_no_gpu_shares() -> None:
    """Two GPUs: 2,048 tokens with 8 experts each, gate and up of 2 x 768 and an output of 768."""
    sliced, whole = (
        named(
            engine._kept(
                scene(
                    model="Qwen/Qwen3-30B-A3B",
                    rollout_tensor_parallel=2,
                    max_num_batched_tokens=2048,
                    rollout_expert_parallel=each,
                )
            ),
            "vLLM expert workspace",
        )
        for each in (False, True)
    )
    assert sliced == 2048 * 8 * (2048 + 384) * 2
    assert whole == 2048 * 8 * (2048 + 768) * 2
