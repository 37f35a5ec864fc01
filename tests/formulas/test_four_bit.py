"""4-bit weights: what they take and what products with them make, by hand; what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from planner import catalog
from planner.estimate import estimate
from planner.formulas.activations.layers import layer_forward_transient, layer_saved
from planner.formulas.activations.workload import Workload
from planner.plan import Plan, try_plan

QLORA = {"method": "sft", "finetuning": "qlora", "gpus": 1, "prompt_tokens": 256}


def resident(**changes: Any) -> dict[str, int]:
    plan = Plan(**{**QLORA, "model": "Qwen/Qwen3-0.6B", **changes})
    phase = next(p for p in estimate(plan).phases if p.name == "optimizer step")
    return {term.name: int(term.bytes) for term in phase.terms if not term.host}


def workload(**changes: Any) -> Workload:
    values = {
        "sequences": 1,
        "tokens": 8,
        "batch_shape": "full",
        "attention": "flash",
        "precision": "bf16",
        "trains": "none",
        "four_bit": True,
        **changes,
    }
    return Workload(**values)


def test_projections_are_packed_and_the_rest_stays() -> None:
    arch = catalog.model("Qwen/Qwen3-0.6B").architecture
    heads = arch.head_dim * (2 * arch.heads + 2 * arch.kv_heads)
    linears = arch.layers * arch.hidden * (heads + 3 * arch.intermediate)
    found = resident()
    # Two values a byte, a byte for each 64, four bytes for each 256 of those.
    assert found["4-bit weights"] == linears // 2 + linears // 64 + 4 * linears // (64 * 256)
    norms = arch.layers * (2 * arch.hidden + 2 * arch.head_dim) + arch.hidden
    assert found["weights"] == 2 * (arch.vocab * arch.hidden + norms)


def test_adapters_are_as_wide_as_the_plan_says() -> None:
    wide, narrow = resident(), resident(master_dtype="none")
    assert wide["adapter weights"] == 2 * narrow["adapter weights"]
    assert Plan(**QLORA, framework="trl").master_dtype == "none"


def test_a_short_forward_is_as_high_as_its_widest_weight() -> None:
    arch = catalog.model("Qwen/Qwen3-0.6B").architecture
    terms = layer_forward_transient(arch, workload(), role="policy")
    named = {term.name: term.bytes for term in terms}
    elements = arch.hidden * arch.intermediate
    whole = [size for name, size in named.items() if name.startswith("dequantised weight")]
    assert whole == [2 * elements]
    assert named["scales of 4-bit blocks"] == 2 * 4 * elements // 64


def test_nothing_is_kept_that_plain_lora_does_not_keep() -> None:
    arch = catalog.model("Qwen/Qwen3-0.6B").architecture
    lora = {"trains": "lora", "lora_targets": ("all-linear",), "lora_rank": 8}

    def kept(four_bit: bool) -> int:
        given = workload(**lora, four_bit=four_bit)
        return sum(int(t.bytes) for t in layer_saved(arch, given, role="policy", layers=1))

    assert kept(True) == kept(False)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model": "openai-community/gpt2", "response_tokens": 128}, "finetuning"),
        ({"gpus": 8, "sharding": "fsdp2"}, "finetuning"),
        ({"method": "grpo", "rollout": "hf"}, "finetuning"),
        ({"method": "grpo", "reference": "copy"}, "finetuning"),
    ],
)
def test_what_is_not_derived_is_refused_in_words(changes: dict[str, Any], field: str) -> None:
    plan, problems = try_plan({**QLORA, **changes})
    assert plan is None
    assert field in {problem.field for problem in problems}
    assert all(problem.fix for problem in problems)


def test_several_gpus_keep_whole_copies_unless_told_otherwise() -> None:
    assert Plan(**{**QLORA, "gpus": 4}).sharding == "ddp"
