"""What a step switches on its way: adapters off and on, experts and masks while it generates."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from accuracy.tiny import CONFIGS
from planner import catalog
from planner.dryrun.logs.log import Log
from planner.dryrun.run.execute import execute
from planner.plan import Plan
from planner.steps import models

pytestmark = pytest.mark.filterwarnings("ignore:FSDP2-wrapped module:UserWarning")


def logged(family: str, on: Any = "gpu", **changes: Any) -> Log:
    """Two steps of a tiny plan, every layer run."""
    config = {**CONFIGS[family], "model_type": CONFIGS[family].get("model_type", family)}
    values: dict[str, Any] = {
        "model": "tiny/model",
        "config": catalog.encode_config(config),
        "gpus": 1,
        "sharding": "none",
        "master_dtype": "none",
        "dtype": "bf16",
        "batch_shape": "full",
        "attention": "eager",
        "prompts_per_step": 8,
        "micro_batch_size": 1,
        "prompt_tokens": 16,
        "response_tokens": 8,
        **changes,
    }
    return execute(Plan(**values), {role: config for role in ("policy", "critic", "reward")}, on)


@pytest.mark.parametrize("reshard", (True, False))
@pytest.mark.parametrize("method", ("dpo", "grpo"))
def test_adapters_train_after_they_were_off_for_the_reference(method: str, reshard: bool) -> None:
    """Under FSDP either the shards or the gathered weights are registered when they are off."""
    changes: dict[str, Any] = {"responses_per_prompt": 2} if method == "grpo" else {}
    log = logged(
        "llama",
        method=method,
        finetuning="lora",
        reference="adapter-disabled",
        **({"kl": "loss", "rollout": "hf"} if method == "grpo" else {}),
        gpus=4,
        sharding="fsdp2",
        reshard_after_forward=reshard,
        **changes,
    )
    # AdamW counts its steps in a scalar for every parameter that has a gradient: two matrices of
    # seven projections in every layer.
    counters = [
        made
        for made in log.made.values()
        if made.category == "optimizer" and made.op == "aten::zeros" and made.shape == ()
    ]
    assert len(counters) == 2 * 7 * CONFIGS["llama"]["num_hidden_layers"]


def test_only_adapters_that_are_there_can_be_off() -> None:
    with (
        pytest.raises(ValueError, match="finetuning: this model has no adapters"),
        models.without_adapters(torch.nn.Linear(2, 2)),
    ):
        pass


def test_a_gpu_gives_each_new_token_its_experts_and_a_processor_does_not() -> None:
    """transformers' ``generate`` switches after the prompt, and back when it ends."""
    plan: dict[str, Any] = {"method": "grpo", "responses_per_prompt": 2, "kl": "none"}
    for on, batched in (("gpu", True), ("cpu", False)):
        log = logged("qwen3_moe", on=on, rollout="hf", **plan)
        products = [made for made in log.made.values() if "experts" in made.module]
        # A column for each of two experts of each of 16 new tokens.
        columns = [
            made
            for made in products
            if made.op == "aten::bmm" and made.shape[0] == 16 * 2 and made.shape[-1] == 1
        ]
        assert bool(columns) == batched
        assert any(made.op == "aten::_grouped_mm" for made in products)


def test_the_prompts_of_a_packed_plan_are_padded_rows() -> None:
    """Rows are answered one by one, with the mask that padding has, and repeated heads with it."""
    log = logged(
        "llama",
        method="grpo",
        responses_per_prompt=2,
        rollout="hf",
        kl="none",
        batch_shape="packed",
        attention="sdpa",
        dtype="fp32",
    )
    sequences = 16
    masks = [
        made
        for made in log.made.values()
        if made.dtype == "bool" and made.shape == (sequences, 1, 16, 16)
    ]
    assert masks
