"""Qwen's vision-language models are planned as the language models in them, to the weight."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModel

from planner import Plan, catalog, estimate
from planner.catalog.families import ALIKE

SIZES: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "vocab_size": 512,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SECTIONS = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}
CLASSES = {
    "qwen2_vl_text": "Qwen2VLText",
    "qwen2_5_vl_text": "Qwen2_5_VLText",
    "qwen3_vl_text": "Qwen3VLText",
    "qwen3_vl_moe_text": "Qwen3VLMoeText",
}


def sizes_of(part: str) -> dict[str, Any]:
    more: dict[str, Any] = {"head_dim": 16} if part.startswith("qwen3") else {}
    return {**SIZES, **more, **(EXPERTS if "moe" in part else {})}


def language_model(part: str) -> torch.nn.Module:
    """The language model as the multimodal one has it."""
    whole = part.removesuffix("_text")
    room = f"transformers.models.{whole}"
    settings = getattr(import_module(f"{room}.configuration_{whole}"), f"{CLASSES[part]}Config")
    model = getattr(import_module(f"{room}.modeling_{whole}"), f"{CLASSES[part]}Model")
    made: torch.nn.Module = model(settings(**sizes_of(part), rope_parameters=SECTIONS))
    return made


def alone(part: str) -> torch.nn.Module:
    made: torch.nn.Module = AutoModel.from_config(CONFIG_MAPPING[ALIKE[part]](**sizes_of(part)))
    return made


def kept_bytes(model: torch.nn.Module) -> int:
    """What a forward keeps for its backward, weights apart."""
    seen: dict[int, int] = {}

    def pack(saved: torch.Tensor) -> torch.Tensor:
        storage = saved.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return saved

    ids = torch.zeros((2, 32), dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        found = model(input_ids=ids, use_cache=False)
    weights = {one.untyped_storage().data_ptr() for one in model.parameters()}
    assert found is not None
    return sum(size for place, size in seen.items() if place not in weights)


@pytest.mark.parametrize("part", ALIKE)
def test_weights_and_activations_are_the_other_types(part: str) -> None:
    theirs, ours = language_model(part), alone(part)
    shapes = [
        sorted((name, tuple(one.shape)) for name, one in model.named_parameters())
        for model in (theirs, ours)
    ]
    assert shapes[0] == shapes[1]
    # Cosines and sines of three positions in place of one, 16 wide, in fp32, once for all layers.
    assert kept_bytes(theirs) - kept_bytes(ours) in range(0, 3 * 2 * 2 * 32 * 16 * 4)


@pytest.mark.parametrize("part", ALIKE)
def test_the_configs_language_model_is_planned_and_its_tower_named(part: str) -> None:
    whole = part.removesuffix("_text")
    inner = {**sizes_of(part), "model_type": part, "rope_scaling": {"type": "mrope", **SECTIONS}}
    config = {"model_type": whole, "text_config": inner, "vision_config": {"depth": 2}}
    other = {**sizes_of(part), "model_type": ALIKE[part]}
    found, known = catalog.parse_config(config), catalog.parse_config(other)
    assert found.architecture is not None and found.architecture == known.architecture
    assert f"{whole} is multimodal" in found.warnings[0]
    link = catalog.encode_config(config)
    assert catalog.parse_config(catalog.decode_config(link)).warnings == found.warnings
    plan = Plan(model="a/b", config=link, method="sft", gpus=1, master_dtype="none")
    same = plan.changed(config=catalog.encode_config(other))
    assert estimate(plan).device_bytes == estimate(same).device_bytes


@pytest.mark.parametrize("whole", ["qwen2_vl", "qwen2_5_vl"])
def test_older_files_have_its_sizes_beside_the_towers(whole: str) -> None:
    name = CLASSES[f"{whole}_text"].removesuffix("Text")
    flat = {
        **SIZES,
        "model_type": whole,
        "architectures": [f"{name}ForConditionalGeneration"],
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        "vision_config": {"depth": 2, "hidden_size": 32},
    }
    found = catalog.parse_config(flat)
    assert found.architecture is not None and found.architecture.family == "qwen2"
    assert found.architecture.hidden == 64 and "multimodal" in found.warnings[0]
    with pytest.raises(ValueError, match="quantization_config"):
        catalog.parse_config({**flat, "quantization_config": {"bits": 4}})
