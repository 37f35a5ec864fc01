"""Liger's stand-ins: what they keep, make and write over, and the closed form beside them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
import transformers.models.llama.modeling_llama as modeling

from branch_steps import config
from dry_peaks import UPDATE, meets_dry_run
from planner.dryrun.run.branches.liger import GatedProduct, RmsNorm, Rope, liger_kernels
from planner.plan import Plan
from planner.steps.stage import Stage

torch.set_num_threads(1)

CUBLAS_BYTES = 64 * 2**20


def given(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.bfloat16, requires_grad=True)


def kept(work: Any) -> tuple[Any, list[int]]:
    sizes: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.untyped_storage().nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return work(), sizes


@pytest.mark.parametrize("in_place", [True, False])
def test_a_norm_keeps_its_input_and_one_number_a_row(in_place: bool) -> None:
    x, weight = given(2, 8, 64) * 1, given(64)
    output, sizes = kept(lambda: RmsNorm.apply(x, weight, in_place, 132))
    assert sizes == [2 * 8 * 64 * 2, 64 * 2, 2 * 8 * 4]
    arrives = torch.ones_like(output)
    gradient, summed = torch.autograd.grad(output, (x, weight), arrives)
    assert (gradient.data_ptr() == arrives.data_ptr()) == in_place
    assert summed.shape == (64,)


def test_rotation_is_in_place_and_copies_gradients_that_lie_by_head() -> None:
    heads = (given(2, 8, 4, 16) * 1).transpose(1, 2)
    keys = (given(2, 8, 2, 16) * 1).transpose(1, 2)
    table = torch.ones(1, 8, 16, dtype=torch.bfloat16)
    (q, k), sizes = kept(lambda: Rope.apply(heads, keys, table, table))
    assert sizes == [8 * 16 * 2] * 2
    assert q.data_ptr() == heads.data_ptr() and k.data_ptr() == keys.data_ptr()
    by_token, by_head = torch.ones(2, 8, 4, 16), torch.ones(2, 2, 8, 16)
    arrives = (by_token.bfloat16().transpose(1, 2), by_head.bfloat16())
    first, second = torch.autograd.grad((q, k), (heads, keys), arrives)
    assert first.data_ptr() == arrives[0].data_ptr()
    assert second.data_ptr() != arrives[1].data_ptr()


def test_gradients_of_gate_and_up_lie_where_these_did() -> None:
    gate, up = given(2, 8, 64) * 1, given(2, 8, 64) * 1
    product, sizes = kept(lambda: GatedProduct.apply(gate, up))
    assert sizes == [2 * 8 * 64 * 2] * 2
    found = torch.autograd.grad(product, (gate, up), torch.ones_like(product))
    assert [item.data_ptr() for item in found] == [gate.data_ptr(), up.data_ptr()]


def test_modeling_files_are_put_back() -> None:
    from transformers import AutoModelForCausalLM

    before = modeling.apply_rotary_pos_emb
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config("llama"))
        other = AutoModelForCausalLM.from_config(config("gpt2"))
    with liger_kernels(132) as apply:
        apply(model)
        assert modeling.apply_rotary_pos_emb is not before
        with pytest.raises(ValueError, match="gpt2 layers is not derived; set liger to false"):
            apply(other)
    assert modeling.apply_rotary_pos_emb is before


def test_a_real_run_says_that_the_package_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "liger_kernel", None)
    with pytest.raises(ValueError, match="install liger-kernel==0.8.5, or set liger to false"):
        Stage().liger(torch.nn.Linear(2, 2))


def test_a_real_run_asks_the_package_for_layers_and_not_for_its_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from types import ModuleType, SimpleNamespace

    asked: list[dict[str, Any]] = []
    package, transformers = ModuleType("liger_kernel"), ModuleType("liger_kernel.transformers")
    transformers.monkey_patch = SimpleNamespace(  # type: ignore[attr-defined]
        MODEL_TYPE_TO_APPLY_LIGER_FN={"llama": None},
        _apply_liger_kernel_to_instance=lambda **given: asked.append(given),
    )
    monkeypatch.setitem(sys.modules, "liger_kernel", package)
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", transformers)
    model = SimpleNamespace(config=SimpleNamespace(model_type="llama"))
    Stage().liger(model)  # type: ignore[arg-type]
    assert asked == [{"model": model, "fused_linear_cross_entropy": False}]
    model.config.model_type = "gpt2"
    with pytest.raises(ValueError, match="no kernels for gpt2"):
        Stage().liger(model)  # type: ignore[arg-type]


ONE = {"gpus": 1, "sharding": "none", "dtype": "bf16", "master_dtype": "none"}
ADAPTERS = {"finetuning": "lora", "lora_targets": "all-linear"}
EIGHT = {"gpus": 8, "sharding": "fsdp2", "dtype": "bf16"}
PLANS: list[dict[str, Any]] = [
    {"method": "sft", "model": "meta-llama/Llama-3.2-1B", **ONE},
    {"method": "sft", "model": "Qwen/Qwen2.5-0.5B", "batch_shape": "full", **ONE},
    {"method": "sft", "model": "mistralai/Mistral-7B-v0.1", **ADAPTERS, **ONE},
    {"method": "grpo", "model": "Qwen/Qwen3-0.6B", **ADAPTERS, **ONE},
    {"method": "grpo", "model": "Qwen/Qwen2.5-0.5B", "gradient_checkpointing": "none", **EIGHT},
    {"method": "grpo", "model": "google/gemma-2-2b", "attention": "eager", **ADAPTERS, **ONE},
    {"method": "ppo", "model": "meta-llama/Llama-3.2-1B", "gradient_checkpointing": "none", **ONE},
    {"method": "ppo", "model": "Qwen/Qwen3-0.6B", **ADAPTERS, **ONE},
    {"method": "dpo", "model": "google/gemma-2-2b", "attention": "flash", **ONE},
    {"method": "sft", "model": "Qwen/Qwen3-0.6B", "gpus": 1, "sharding": "none"},
]  # the last under autocast


@pytest.mark.parametrize("values", PLANS, ids=lambda v: f"{v['method']} {v['model']}")
def test_closed_form_meets_the_dry_run(values: dict[str, Any]) -> None:
    plan = Plan(
        gpu="h100-80gb",
        liger=True,
        prompt_tokens=256,
        response_tokens=512,
        prompts_per_step=8,
        prompts_per_update=8,
        logprob_micro_batch_size=1,
        **values,
    )
    meets_dry_run(plan, phases=UPDATE)
