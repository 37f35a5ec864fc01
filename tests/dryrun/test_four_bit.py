"""4-bit layers without bitsandbytes: their tensors, and the closed form beside dry runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dry_peaks import UPDATE, meets_dry_run
from planner.dryrun.run.branches import four_bit
from planner.plan import Plan
from planner.steps.stage import Stage

torch.set_num_threads(1)

CUBLAS_BYTES = 64 * 2**20


def layer() -> Any:
    made = nn.Linear(256, 512, dtype=torch.bfloat16)
    four_bit.quantised(nn.ModuleList([made]), torch.bfloat16)
    return made


def test_a_weight_is_packed_with_its_scales() -> None:
    made = layer()
    count = 256 * 512
    assert (made.weight.dtype, made.weight.numel()) == (torch.uint8, count // 2)
    assert (made.absmax.dtype, made.absmax.numel()) == (torch.uint8, count // 64)
    assert (made.nested_absmax.dtype, made.nested_absmax.numel()) == (torch.float32, 8)
    assert not made.weight.requires_grad


def test_a_product_keeps_nothing_and_hands_the_gradient_on() -> None:
    kept: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    x = torch.ones(3, 256, dtype=torch.bfloat16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = layer()(x)
    assert kept == []
    assert output.shape == (3, 512)
    output.sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape


def test_a_real_run_says_that_it_has_no_weights_to_quantise() -> None:
    made = nn.ModuleList([nn.Linear(2, 2)])
    with pytest.raises(ValueError, match="estimated and run dry only; set finetuning to lora"):
        Stage().four_bit(made, made, lambda model: model, torch.float32, torch.bfloat16)


MISTRAL, LLAMA = "mistralai/Mistral-7B-v0.1", "meta-llama/Llama-3.2-1B"
QWEN, GEMMA = "Qwen/Qwen3-0.6B", "google/gemma-2-2b"
PLANS: list[dict[str, Any]] = [
    {"method": "sft", "model": LLAMA, "gradient_checkpointing": "none"},
    {"method": "sft", "model": MISTRAL, "lora_targets": "q_proj,v_proj"},
    {"method": "dpo", "model": MISTRAL, "lora_targets": "q_proj,v_proj"},
    {"method": "grpo", "model": MISTRAL},
    {"method": "grpo", "model": GEMMA, "attention": "eager", "master_dtype": "none"},
    {"method": "ppo", "model": QWEN, "master_dtype": "none"},
    {"method": "intuitor", "model": LLAMA, "gradient_checkpointing": "none"},
    {"method": "sft", "model": QWEN, "liger": True},
    # The peak of these is inside the layer that a checkpoint runs again.
    {"method": "grpo", "model": LLAMA, "finetuning": "lora", "logits": "fused"},
    {"method": "grpo", "model": "Qwen/Qwen2.5-0.5B", "finetuning": "lora", "logits": "fused"},
]


@pytest.mark.parametrize("values", PLANS, ids=lambda v: f"{v['method']} {v['model']}")
def test_closed_form_meets_the_dry_run(values: dict[str, Any]) -> None:
    plan = Plan(
        **{
            "finetuning": "qlora",
            "gpu": "h100-80gb",
            "gpus": 1,
            "sharding": "none",
            "prompt_tokens": 512,
            "response_tokens": 512,
            "prompts_per_step": 8,
            "prompts_per_update": 4,
            "micro_batch_size": 2,
            "logprob_micro_batch_size": 2,
            **values,
        }
    )
    meets_dry_run(plan, within=1e-4, above=2e-3, phases=UPDATE)
