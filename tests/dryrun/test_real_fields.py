"""Fields that real runs have: the closed form against the step on tensors without data."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dry_peaks import meets_dry_run
from planner.dryrun.ask.stand_in import stand_in
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.relevance import without_effect

torch.set_num_threads(1)

SIZE: dict[str, Any] = {"prompt_tokens": 96, "response_tokens": 160, "batch_shape": "full"}
BATCH: dict[str, Any] = {"prompts_per_step": 2, "responses_per_prompt": 2, "micro_batch_size": 1}
LORA: dict[str, Any] = {"finetuning": "lora", "lora_rank": 8}
HALF: dict[str, Any] = {"master_dtype": "none", "gradient_dtype": "bf16"}


def planned(**changes: Any) -> Plan:
    base = {"model": "Qwen/Qwen2.5-0.5B", "method": "grpo", "gpus": 1, "rollout": "hf"}
    return Plan(**{**base, **SIZE, **BATCH, **changes})


def peaks(found: Footprint) -> dict[str, int]:
    return {phase.name: int(phase.requested_bytes) for phase in found.phases}


def compared(plan: Plan) -> dict[str, int]:
    """The estimate's peaks, beside the dry run's."""
    return meets_dry_run(plan, phases=("old log-probs", "policy forward", "policy backward"))


def test_a_step_after_every_micro_batch_leaves_no_gradients_for_the_next() -> None:
    plan = planned(**LORA)
    plain, each = peaks(estimate(plan)), compared(plan.changed(optimizer_step="micro-batch"))
    adapters = 4 * 8 * 24 * (4 * 896 + 2 * (896 + 128) + 3 * (896 + 4864))
    assert plain["policy forward"] - each["policy forward"] == adapters
    assert plain["optimizer step"] == each["optimizer step"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {**HALF, "gradient_checkpointing": "none", "logits": "chunked", "micro_batch_size": 2},
        {**LORA, "micro_batch_size": 2},
        {"gpus": 2, "prompts_per_step": 4, "rollout": "none", "method": "sft"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())) or "plain",
)
def test_an_optimizer_in_the_backward_keeps_no_gradients(changes: dict[str, Any]) -> None:
    if changes.get("method") == "sft":
        changes = {**changes, "responses_per_prompt": 1}
    plan = planned(**{**changes, "optimizer_step": "in-backward"})
    own = meets_dry_run(plan)
    assert "optimizer step" not in own
    waiting = peaks(estimate(plan.changed(optimizer_step="micro-batch")))
    assert own["policy forward"] == waiting["policy forward"]
    if not changes:  # others are highest before most gradients are there
        assert own["policy backward"] < waiting["policy backward"]


FP32_BASE: dict[str, Any] = {**LORA, "base_dtype": "fp32", "rollout": "vllm-colocated"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"finetuning": "qlora", "gradient_checkpointing": "none", **HALF, "lora_dropout": 0.1},
        {"gpus": 2, "prompts_per_step": 4},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())) or "plain",
)
def test_frozen_weights_in_fp32(changes: dict[str, Any]) -> None:
    plan = planned(**{**FP32_BASE, **changes})
    own = compared(plan)
    half = peaks(estimate(plan.changed(base_dtype="compute")))
    # Twice the bytes of all weights that are not in 4 bits, over the GPUs; embeddings are tied.
    norms = 24 * 2 * 896 + 896
    biases = 24 * (896 + 2 * 128)
    linears = 24 * (2 * 896 * (896 + 128) + 3 * 896 * 4864)
    kept = 151936 * 896 + norms + biases + linears * (plan.finetuning == "lora")
    assert own["optimizer step"] - half["optimizer step"] == 2 * kept // plan.gpus


@pytest.mark.parametrize(
    "changes",
    [
        {"autocast": True, "lora_dropout": 0.1, "logits": "fused"},
        {"autocast": True, "logits_dtype": "bf16", "gradient_checkpointing": "none"},
        {"finetuning": "qlora"},
        {"gpus": 2, "prompts_per_step": 4},
        {"method": "dpo", "rollout": "none", "responses_per_prompt": 1},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_a_second_adapter_as_reference(changes: dict[str, Any]) -> None:
    more = {**LORA, "rollout": "vllm-colocated", **changes}
    plan = planned(**more, reference="frozen-adapter")
    own = meets_dry_run(plan)
    base = peaks(estimate(plan.changed(reference="adapter-disabled")))
    adapters = 4 * 8 * 24 * (4 * 896 + 2 * (896 + 128) + 3 * (896 + 4864))
    assert own["optimizer step"] - base["optimizer step"] == -(-adapters // (4 * plan.gpus)) * 4


def test_autocast_computes_adapters_in_half_precision() -> None:
    more = {"rollout": "vllm-colocated", "gradient_checkpointing": "none"}
    plan = planned(**LORA, **more, autocast=True)
    wide = peaks(estimate(plan.changed(autocast=False)))
    assert compared(plan)["policy forward"] < wide["policy forward"]


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "openai-community/gpt2", "attention": "eager"},
        {"model": "EleutherAI/pythia-160m", "gradient_checkpointing": "full"},
        {
            **{"model": "openai-community/gpt2", "framework": "trl", "rollout": "hf"},
            **{"prompts_per_step": 8, "prompts_per_update": 2},
        },
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_autocast_widens_layer_norms_and_powers_over_frozen_weights(
    changes: dict[str, Any],
) -> None:
    """Operators of autocast's list answer in fp32 whatever format the frozen weights have."""
    more = {"rollout": "vllm-colocated", "gradient_checkpointing": "none", "micro_batch_size": 2}
    compared(planned(**{**LORA, **more, "autocast": "framework" not in changes, **changes}))


def test_dropout_of_adapters_beside_4_bit_weights() -> None:
    plan = planned(finetuning="qlora", rollout="vllm-colocated", gradient_checkpointing="none")
    without = peaks(estimate(plan))
    assert compared(plan.changed(lora_dropout=0.1))["policy forward"] > without["policy forward"]


def test_a_paged_optimizer_leaves_the_gpu_but_for_small_tensors_and_scales() -> None:
    plan = planned(**HALF, optimizer="paged-adamw-8bit")
    eight = plan.changed(optimizer="adamw-8bit")
    own, whole = peaks(estimate(plan)), peaks(estimate(eight))
    layer = 2 * 896 * (896 + 128) + 3 * 896 * 4864
    paged = 24 * layer + 151936 * 896
    assert whole["optimizer step"] - own["optimizer step"] == 2 * paged
    assert max(p.host_bytes for p in estimate(plan).phases) >= 2 * paged
    # Adapters of rank 8 have no tensor of 100,000 values.
    adapters = planned(**LORA, optimizer="paged-adamw-8bit")
    other = adapters.changed(optimizer="adamw-8bit")
    apart = peaks(estimate(adapters))["optimizer step"] - peaks(estimate(other))["optimizer step"]
    assert apart == 0
    assert any("Paged moments" in warning for warning in estimate(plan).warnings)


@pytest.mark.parametrize("method", ["grpo", "sft"])
def test_rows_of_a_chunk_of_the_head(method: str) -> None:
    alone = {"method": method, "responses_per_prompt": 1, "prompts_per_step": 4, "rollout": "none"}
    plan = planned(
        **{**(alone if method == "sft" else {}), **HALF}, logits="chunked", micro_batch_size=4
    )
    small, large = plan.changed(chunk_tokens=64), plan.changed(chunk_tokens=600)
    found = [peaks(estimate(each)) for each in (small, plan, large)]
    assert found[0]["policy forward"] < found[1]["policy forward"] < found[2]["policy forward"]
    meets_dry_run(small)
    meets_dry_run(large)


def test_a_temperature_copies_logits_that_nothing_upcasts() -> None:
    plan = planned(**HALF, logits="full", logits_dtype="bf16", micro_batch_size=2)
    warm = plan.changed(temperature=0.7)
    verl = {"framework": "verl", "rollout": "vllm-colocated", "attention": "flash"}
    compared(warm)
    own = {t: planned(**HALF, **verl, temperature=t) for t in (1.0, 0.7)}
    cool, scaled = (peaks(estimate(each))["old log-probs"] for each in own.values())
    assert scaled - cool == 2 * 256 * 151936
    # Nothing is sampled from a model that imitates.
    given = planned(method="sft", rollout="none", responses_per_prompt=1, temperature=0.7)
    assert "temperature" in without_effect(given)
    assert peaks(estimate(given)) == peaks(estimate(given.changed(temperature=1.0)))


@pytest.mark.parametrize("shape", ["full", "padded", "packed"])
def test_flash_attention_3_keeps_what_2_keeps(shape: str) -> None:
    two, three = (
        planned(attention=kernel, batch_shape=shape, gpu="h100-80gb", micro_batch_size=2)
        for kernel in ("flash", "flash_attention_3")
    )
    assert compared(three) == peaks(estimate(two))


def test_compiled_chunks_have_the_buffers_that_inductor_makes() -> None:
    """Counted of ``torch.compile`` on a CPU: 6 and 4 bytes an element; eager ones have 12, 20."""
    more = {"rollout": "vllm-colocated", "logits": "chunked", "chunk_tokens": 64}
    plan = planned(**LORA, **more, micro_batch_size=2, gradient_checkpointing="none")
    eager, own = peaks(estimate(plan)), peaks(estimate(plan.changed(chunk_compile=True)))
    elements = 64 * 151936
    for phase, saved in {"old log-probs": 12 - 6, "policy forward": 12 - 6}.items():
        assert eager[phase] - own[phase] == pytest.approx(saved * elements, rel=0.01)
    assert eager["policy backward"] > own["policy backward"]
    standing = stand_in(plan.changed(chunk_compile=True))
    assert standing.plan == plan
    assert any("chunks ran eagerly" in note for note in standing.notes)
