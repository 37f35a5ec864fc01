"""Layers with Liger's kernels: sums by hand from its source, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner import catalog
from planner.formulas.activations.layers import layer_backward_transient, layer_saved
from planner.formulas.activations.liger import refuse_without_kernels
from planner.formulas.activations.workload import Workload
from planner.plan import Plan, try_plan

ROWS, TOKENS = 3, 512
LORA = {"finetuning": "lora", "lora_targets": "q_proj", "lora_rank": 8}


def workload(**changes: object) -> Workload:
    values = {
        "sequences": ROWS,
        "tokens": TOKENS,
        "batch_shape": "full",
        "attention": "flash",
        "precision": "bf16",
        "trains": "all",
        "multiprocessors": 132,
        **changes,
    }
    return Workload(**values)  # type: ignore[arg-type]


def per_token(model: str, **changes: object) -> float:
    arch = catalog.model(model).architecture
    terms = layer_saved(arch, workload(**changes), role="policy", layers=1)
    return sum(term.bytes for term in terms) / (ROWS * TOKENS)


def test_a_llama_layer_keeps_inputs_of_norms_gate_and_up() -> None:
    arch = catalog.model("meta-llama/Llama-3.2-1B").architecture
    h, i, d = arch.hidden, arch.intermediate, arch.head_dim
    norms = 2 * (2 * h + 4 + 2 * h)  # input, 1/rms, and the output that projections keep
    attention = 2 * 2 * arch.heads * d + 2 * 2 * arch.kv_heads * d + 4 * arch.heads
    mlp = 3 * 2 * i
    assert per_token("meta-llama/Llama-3.2-1B") == norms + attention + mlp


def test_head_norms_keep_what_they_read_beside_what_rotation_turned_in_place() -> None:
    arch = catalog.model("Qwen/Qwen3-0.6B").architecture
    h, i, d = arch.hidden, arch.intermediate, arch.head_dim
    both = arch.heads + arch.kv_heads
    expected = 2 * (4 * h + 4) + 6 * i + 2 * 2 * arch.heads * d + 2 * 2 * arch.kv_heads * d
    expected += 4 * arch.heads + both * (2 * d + 4)
    assert per_token("Qwen/Qwen3-0.6B") == expected


@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-0.5B", "google/gemma-2-2b"])
def test_it_keeps_less_than_transformers_own_layer(model: str) -> None:
    assert per_token(model) < 0.75 * per_token(model, multiprocessors=0)


def test_partial_sums_have_a_row_for_each_multiprocessor() -> None:
    arch = catalog.model("Qwen/Qwen2.5-0.5B").architecture
    # So few tokens that a norm's weight gradient decides the peak.
    few = replace(workload(), sequences=1, tokens=1)

    def peak(multiprocessors: int) -> int:
        given = replace(few, multiprocessors=multiprocessors)
        return sum(int(t.bytes) for t in layer_backward_transient(arch, given, role="policy"))

    assert peak(142) - peak(132) == 10 * arch.hidden * 4


@pytest.mark.parametrize(
    ("model", "reason"),
    [("openai-community/gpt2", "has no kernels for gpt2"), ("allenai/OLMo-2-0425-1B", "olmo2")],
)
def test_other_families_are_refused_in_words(model: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        refuse_without_kernels(catalog.model(model).architecture)
    plan, problems = try_plan(
        {"model": model, "method": "sft", "response_tokens": 256, "liger": True}
    )
    assert plan is None
    assert problems[0].field == "liger"
    assert "Set liger to false" in problems[0].fix


def test_a_card_whose_multiprocessors_nobody_reported_is_refused() -> None:
    plan, problems = try_plan({"model": "Qwen/Qwen3-0.6B", "gpu": "a30", "liger": True})
    assert plan is None
    assert (problems[0].field, "multiprocessors" in problems[0].message) == ("gpu", True)


def test_trl_leaves_its_reference_alone() -> None:
    from planner.estimate import estimate

    def reference(framework: str, liger: bool) -> int:
        plan = Plan(
            model="Qwen/Qwen3-0.6B", framework=framework, gpus=1, sharding="none",
            reference="copy", liger=liger, **({"finetuning": "full"}),
        )  # fmt: skip
        phases = {phase.name: phase for phase in estimate(plan).phases}
        return phases["reference log-probs"].requested_bytes

    assert reference("trl", True) == reference("trl", False)
    assert reference("plain", True) <= reference("plain", False)
