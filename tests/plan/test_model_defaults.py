"""What a model makes usual, where nobody chose it: an attention that runs, targets of a mixture."""

from __future__ import annotations

from typing import Any

import pytest

from planner import catalog
from planner.plan import Plan
from planner.plan.chosen import completed, followed
from planner.plan.defaults import model_defaults

QWEN, GEMMA, OSS = "Qwen/Qwen3-0.6B", "google/gemma-2-2b", "openai/gpt-oss-20b"
VERL = {"method": "grpo", "framework": "verl"}


@pytest.mark.parametrize(
    ("given", "attention", "batch_shape"),
    [
        ({"model": QWEN}, "sdpa", "padded"),
        ({"model": GEMMA}, "eager", "padded"),
        ({"model": OSS}, "eager", "padded"),
        # verl's own default, which computes in half precision alone.
        ({"model": QWEN, **VERL}, "flash", "packed"),
        ({"model": QWEN, **VERL, "dtype": "fp32"}, "sdpa", "packed"),
        # FlashAttention knows Gemma 2's soft caps, and keeps packed rows apart.
        ({"model": GEMMA, **VERL}, "flash", "packed"),
        ({"model": OSS, **VERL}, "eager", "padded"),
        ({"model": GEMMA, "attention": "flash"}, "flash", "padded"),
    ],
)
def test_attention_is_one_that_transformers_runs(
    given: dict[str, Any], attention: str, batch_shape: str
) -> None:
    plan = Plan(**given)
    assert (plan.attention, plan.batch_shape) == (attention, batch_shape)


@pytest.mark.parametrize(
    ("model", "targets"),
    [
        (QWEN, "all-linear"),
        ("Qwen/Qwen3-30B-A3B", "q_proj,k_proj,v_proj,o_proj"),
        ("deepseek-ai/DeepSeek-V2-Lite", "q_proj,kv_a_proj_with_mqa,kv_b_proj,o_proj"),
    ],
)
def test_adapters_of_a_mixture_are_on_its_attention(model: str, targets: str) -> None:
    assert completed({"model": model, "finetuning": "lora"})["lora_targets"] == targets
    assert completed({"model": model})["lora_targets"] == "all-linear"


def test_another_model_moves_what_nobody_chose() -> None:
    before = completed({"model": QWEN})
    assert followed(before, ["model"], {"model": OSS})["attention"] == "eager"
    kept = followed({**before, "attention": "flash"}, ["model", "attention"], {"model": OSS})
    assert kept["attention"] == "flash"


def test_of_an_unknown_model_nothing_is_known() -> None:
    assert model_defaults({"model": "nobody/none"}, QWEN) == {}
    assert model_defaults({"model": QWEN, "config": "damaged"}, QWEN) == {}
    assert model_defaults({}, GEMMA) == model_defaults({"model": GEMMA}, QWEN)
    config = {**catalog.model(QWEN).config, "model_type": "granite", "vocab_size": 777}
    unseen = catalog.encode_config(catalog.parse_config(config).config)
    assert model_defaults({"model": QWEN, "config": unseen}, QWEN) == {}
