"""Adapters in exported scripts are of modules that the model has, for peft asks by name."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import peft
import pytest
import torch
import yaml
from transformers import AutoConfig, AutoModelForCausalLM

from planner import catalog
from planner.formulas.lora import lora_weights
from planner.launch.export import export
from planner.plan import Plan
from planner.plan.facts import facts_of

FAMILIES = (
    "microsoft/Phi-4-mini-instruct",
    "zai-org/glm-4-9b-chat-hf",
    "openai-community/gpt2",
    "EleutherAI/pythia-160m",
    "bigcode/starcoder2-3b",
    "Qwen/Qwen2.5-7B",
)
TARGETS = ("q_proj,v_proj", "q_proj", "o_proj,gate_proj,down_proj")


def planned(model: str, targets: str) -> Plan:
    return Plan(
        model=model, method="sft", framework="trl", finetuning="lora", lora_targets=targets,
        gpus=1, sharding="none", prompt_tokens=256, response_tokens=256,
    )  # fmt: skip


def shallow(name: str) -> Any:
    """The model without data, two layers deep."""
    # transformers writes into what a configuration is made of.
    fields = deepcopy(dict(catalog.model(name).config))
    depth = next(key for key in ("num_hidden_layers", "n_layer") if key in fields)
    kind = fields.pop("model_type")
    config = AutoConfig.for_model(kind, **{**fields, depth: 2, "layer_types": None})
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


# peft asks for a property that transformers has renamed.
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("model", FAMILIES)
def test_trl_is_told_what_peft_finds(model: str, targets: str) -> None:
    plan = planned(model, targets)
    [told] = [yaml.safe_load(file.text) for file in export(plan, "trl").files if "sft" in file.name]
    names = told["lora_target_modules"]
    # As TRL does: one name alone is a pattern.
    modules = names[0] if len(names) == 1 else names
    config = peft.LoraConfig(r=4, target_modules=modules, fan_in_fan_out="gpt2" in model)
    adapted = peft.get_peft_model(shallow(model), config)
    found = sum(name.endswith("lora_A.default.weight") for name, _ in adapted.named_parameters())
    architecture = facts_of(plan).policy
    chosen = lora_weights(architecture, tuple(targets.split(",")))
    assert found == 2 * sum(weight.count for weight in chosen) // architecture.layers


def test_verl_is_told_the_same() -> None:
    plan = Plan(
        model=FAMILIES[0], method="grpo", framework="verl", finetuning="lora",
        lora_targets="q_proj,o_proj", gpus=8, sharding="fsdp2",
    )  # fmt: skip
    [script] = [file.text for file in export(plan, "verl").files if file.name == "launch.sh"]
    assert "target_modules=[qkv_proj,o_proj]" in script
