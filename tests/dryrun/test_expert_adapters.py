"""Adapters of whole tensors of experts: peft's own counts, the dry run, TRL's code, a real CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoConfig, AutoModelForCausalLM

from accuracy.cpu_runs import dry_peaks, real_peaks
from dry_peaks import meets_dry_run
from planner.catalog.config_json import encode_config
from planner.dryrun.ask import request
from planner.dryrun.ask.stand_in import stand_in
from planner.estimate import estimate
from planner.formulas.lora import lora_tensor_count, trainable_lora_parameters
from planner.plan import Plan, try_plan
from planner.plan.facts import facts_of

torch.set_num_threads(1)

SMALL = {
    "vocab_size": 512, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 32, "tie_word_embeddings": False,
    "max_position_embeddings": 4096,
}  # fmt: skip
QWEN = {
    **SMALL, "model_type": "qwen3_moe", "intermediate_size": 512, "moe_intermediate_size": 192,
    "num_experts": 16, "num_experts_per_tok": 4, "norm_topk_prob": True,
}  # fmt: skip
MIXTRAL = {
    **SMALL, "model_type": "mixtral", "intermediate_size": 448, "num_local_experts": 8,
    "num_experts_per_tok": 2, "sliding_window": None,
}  # fmt: skip
BOTH = "gate_up_proj,down_proj"
ATTENTION = "q_proj,k_proj,v_proj,o_proj"
SHARDED: dict[str, Any] = {
    "gpus": 8, "sharding": "fsdp2", "prompts_per_step": 16, "prompts_per_update": 16,
}  # fmt: skip
RL: dict[str, Any] = {
    "method": "grpo", "kl": "loss", "reference": "adapter-disabled", "responses_per_prompt": 2,
    "rollout": "vllm-colocated",
}  # fmt: skip


def planned(config: dict[str, Any] = QWEN, **changes: Any) -> Plan:
    return Plan(**{**_fields(config), **changes})


def _fields(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "config": encode_config(config), "method": "sft", "gpus": 1, "sharding": "none",
        "finetuning": "lora", "lora_rank": 8, "lora_targets": BOTH, "batch_shape": "full",
        "prompts_per_step": 2, "prompts_per_update": 2, "micro_batch_size": 2,
        "prompt_tokens": 1, "response_tokens": 63, "attention": "sdpa", "logits": "full",
        "gradient_checkpointing": "none", "optimizer": "adamw-fused",
    }  # fmt: skip


@pytest.mark.parametrize("config", [QWEN, MIXTRAL], ids=lambda config: config["model_type"])
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.parametrize("targets", ["gate_up_proj", "down_proj", f"q_proj,v_proj,{BOTH}"])
def test_counts_are_those_of_peft(config: dict[str, Any], targets: str) -> None:
    names = targets.split(",")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
        tensors = [f"mlp.experts.{name}" for name in names if name in BOTH.split(",")]
        modules = [name for name in names if name not in BOTH.split(",")]
        found = get_peft_model(
            model, LoraConfig(r=8, target_modules=modules, target_parameters=tensors)
        )
    trained = [weight for weight in found.parameters() if weight.requires_grad]
    arch = facts_of(planned(config)).policy
    assert trainable_lora_parameters(arch, 8, tuple(names)) == sum(one.numel() for one in trained)
    assert lora_tensor_count(arch, tuple(names)) == len(trained)


@pytest.mark.parametrize("config", [QWEN, MIXTRAL], ids=lambda config: config["model_type"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"lora_targets": "q_proj,down_proj"},
        {"lora_targets": f"{ATTENTION},{BOTH}", "gradient_checkpointing": "full"},
        {"lora_targets": f"{ATTENTION},{BOTH}", "gradient_checkpointing": "full", "autocast": True},
        {"master_dtype": "none", "gradient_dtype": "bf16"},
        {"dtype": "fp32", "master_dtype": "none", "lora_targets": "gate_up_proj"},
        {"framework": "trl", "logits": "fused", "gradient_checkpointing": "full"},
        {**SHARDED, "gradient_checkpointing": "full", "lora_targets": f"{ATTENTION},{BOTH}"},
        {**SHARDED, "autocast": True},
        {**SHARDED, "framework": "trl", "logits": "fused", "gradient_checkpointing": "full"},
        {**SHARDED, **RL, "framework": "trl", "logits": "fused", "gpus": 16, "rollout_gpus": 8,
         "rollout": "vllm-separate"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())) or "plain",
)
def test_the_closed_form_is_the_dry_run(config: dict[str, Any], changes: dict[str, Any]) -> None:
    plan = planned(config, **changes)
    assert stand_in(plan).code == plan.framework
    meets_dry_run(plan)


def test_a_layers_experts_are_copied_while_it_runs_and_kept_for_its_backward() -> None:
    """Without checkpointing all layers' changed experts wait for the backward, in bf16."""
    arch = facts_of(planned()).policy
    of_layer = 2 * 3 * arch.experts * arch.expert_intermediate * arch.hidden
    kept, again = (
        {phase.name: phase.requested_bytes for phase in estimate(plan).phases}["policy forward"]
        for plan in (planned(), planned(lora_targets="q_proj"))
    )
    trained = trainable_lora_parameters(arch, 8, tuple(BOTH.split(",")))
    attention = trainable_lora_parameters(arch, 8, ("q_proj",))
    states = (4 + 8) * (trained - attention)
    assert kept - again > arch.layers * of_layer
    assert kept - again == pytest.approx(arch.layers * of_layer + states, rel=0.2)


@pytest.mark.parametrize("config", [QWEN, MIXTRAL], ids=lambda config: config["model_type"])
@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_a_real_step_on_a_cpu_asks_for_what_the_dry_run_says(
    config: dict[str, Any], checkpointing: str
) -> None:
    plan = planned(config, dtype="fp32", master_dtype="none", gradient_checkpointing=checkpointing)
    configs = request.configs_of(plan)
    real, dry = real_peaks(plan, configs), dry_peaks(plan, configs)
    assert real.keys() == dry.keys()
    for phase, size in dry.items():
        assert real[phase] == pytest.approx(size, rel=1e-3), phase


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.parametrize("config", [QWEN, MIXTRAL], ids=lambda config: config["model_type"])
def test_fsdp2_trains_and_merges_what_one_process_does(config: dict[str, Any]) -> None:
    """By torch and peft themselves, on one process: the loss of a third step, and what a
    framework sends to its engine."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        alone, sharded = (_trained(config, sharded=each) for each in (False, True))
    finally:
        dist.destroy_process_group()
    assert alone.keys() == sharded.keys()
    for name, weight in alone.items():
        assert torch.equal(weight, sharded[name]), name


def _trained(config: dict[str, Any], *, sharded: bool) -> dict[str, torch.Tensor]:
    """Weights with their adapters merged after two steps, and the loss of the next."""
    torch.manual_seed(0)
    tensors = [f"mlp.experts.{name}" for name in BOTH.split(",")]
    adapters = LoraConfig(
        r=4, target_modules=["q_proj"], target_parameters=tensors, init_lora_weights=False
    )
    bare = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    model: Any = get_peft_model(bare, adapters)
    if sharded:
        mesh = init_device_mesh("cpu", (1,))
        for unit in (*model.base_model.model.model.layers, model):
            fully_shard(unit, mesh=mesh)
    ids = torch.randint(config["vocab_size"], (2, 8), generator=torch.Generator().manual_seed(1))
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    for _ in range(2):
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    loss = model(input_ids=ids, labels=ids).loss.detach()
    model.merge_adapter()
    found = {
        name: getattr(weight, "full_tensor", lambda weight=weight: weight)()
        for name, weight in model.state_dict().items()
    }
    return {**found, "loss": loss}


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("lora_dropout", {"lora_dropout": 0.1}),
        ("sharding", {"gpus": 2, "sharding": "fsdp1"}),
        ("framework", {**RL, "framework": "verl", "gpus": 2, "sharding": "fsdp2"}),
        ("rollout", {"method": "grpo", "responses_per_prompt": 2, "rollout": "hf"}),
        ("lora_targets", {"lora_targets": "gate_proj,up_proj"}),
        ("lora_targets", {"lora_targets": "all-linear"}),
    ],
)
def test_what_peft_cannot_or_nobody_derived_is_refused(
    field: str, changes: dict[str, Any]
) -> None:
    plan, problems = try_plan({**_fields(QWEN), **changes})
    assert plan is None
    assert field in {problem.field for problem in problems}
    dense, _ = try_plan({"finetuning": "lora", "lora_targets": "down_proj", "lora_dropout": 0.1})
    assert dense is not None
