"""Vision-language models are planned as the language models in them, to the weight."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModel

from planner import Plan, catalog, estimate
from planner.catalog.families.multimodal import ALIKE, INSIDE

SIZES: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "vocab_size": 512,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "head_dim": 16, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
GLM_EXPERTS = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "partial_rotary_factor": 1.0,
    "attention_bias": True,
}  # fmt: skip
SECTIONS = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}
WIDE = {"hidden_size": 512, "num_attention_heads": 32}
"""Room for every default of keys' and values' heads."""
NAMES = {
    "qwen2_vl_text": "Qwen2VLText",
    "qwen2_5_vl_text": "Qwen2_5_VLText",
    "qwen2_5_omni_text": "Qwen2_5OmniText",
    "qwen3_vl_text": "Qwen3VLText",
    "qwen3_vl_moe_text": "Qwen3VLMoeText",
    "qwen3_omni_moe_text": "Qwen3OmniMoeText",
    "glm4v_text": "Glm4vText",
    "glm_ocr_text": "GlmOcrText",
    "glm4v_moe_text": "Glm4vMoeText",
    "paddleocr_vl_text": "PaddleOCRText",
    "granite4_vision_text": "Granite4VisionText",
    "granite_docling_text": "GraniteDoclingText",
    "hunyuan_vl_text": "HunYuanVLText",
}
MODELS = {
    "qwen2_5_omni_text": "Qwen2_5OmniThinkerTextModel",
    "qwen3_omni_moe_text": "Qwen3OmniMoeThinkerTextModel",
    "paddleocr_vl_text": "PaddleOCRTextModel",
}
WITHOUT_MEASUREMENTS = {"qwen2", "qwen3", "qwen3_moe", "glm4"}
"""Types whose sum is derived by hand; the others are measured before they are estimated."""
SMALL = {"tie_word_embeddings", "max_position_embeddings", "rms_norm_eps", "layer_types"}
"""What an outer config says, and what has no bytes."""


def sizes_of(part: str) -> dict[str, Any]:
    if part == "glm4v_moe_text":
        return {**SIZES, **GLM_EXPERTS}
    more = {"attention_bias": False} if part == "glm_ocr_text" else {}
    return {**SIZES, **more, **(EXPERTS if "moe" in part else {})}


def settings_of(part: str) -> Any:
    whole = part.removesuffix("_text")
    return getattr(
        import_module(f"transformers.models.{whole}.configuration_{whole}"), f"{NAMES[part]}Config"
    )


def language_model(part: str) -> torch.nn.Module:
    """The language model as the multimodal one has it."""
    whole = part.removesuffix("_text")
    room = import_module(f"transformers.models.{whole}.modeling_{whole}")
    sizes = {key: one for key, one in sizes_of(part).items() if key != "partial_rotary_factor"}
    made: torch.nn.Module = getattr(room, MODELS.get(part, f"{NAMES[part]}Model"))(
        settings_of(part)(**sizes, rope_parameters={**SECTIONS, "partial_rotary_factor": 1.0})
    )
    return made


def alone(part: str) -> torch.nn.Module:
    other, defaults = ALIKE[part]
    sizes = {**defaults, **sizes_of(part)}
    made: torch.nn.Module = AutoModel.from_config(CONFIG_MAPPING[other](**sizes))
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


def multimodal(part: str, **more: Any) -> dict[str, Any]:
    whole = part.removesuffix("_text")
    inner = {**sizes_of(part), "model_type": part, "rope_scaling": {"type": "mrope", **SECTIONS}}
    config = {"model_type": whole, "text_config": inner, "vision_config": {"depth": 2}, **more}
    if whole in INSIDE:
        return {"model_type": whole, INSIDE[whole]: {**config, "model_type": f"{whole}_thinker"}}
    return config


@pytest.mark.parametrize("part", ALIKE)
def test_the_configs_language_model_is_planned_and_its_tower_named(part: str) -> None:
    config, whole = multimodal(part), part.removesuffix("_text")
    name, defaults = ALIKE[part]
    other = {**defaults, **sizes_of(part), "model_type": name}
    found, known = catalog.parse_config(config), catalog.parse_config(other)
    assert found.architecture == known.architecture and found.model_type == name
    assert found.left_out[0][0] == f"all of {whole} but its language model"
    link = catalog.encode_config(config)
    assert catalog.parse_config(catalog.decode_config(link)).left_out == found.left_out
    if name in WITHOUT_MEASUREMENTS:
        plan = Plan(model="a/b", config=link, method="sft", gpus=1, master_dtype="none")
        same = plan.changed(config=catalog.encode_config(other))
        assert estimate(plan).device_bytes == estimate(same).device_bytes
    else:
        assert {**found.config, "seen": 0} == {**known.config, "seen": 0}


@pytest.mark.parametrize("part", ALIKE)
def test_what_a_file_does_not_say_is_what_transformers_takes(part: str) -> None:
    settings, stated = settings_of(part), {**sizes_of(part), **WIDE}
    theirs, ours = settings().to_dict(), CONFIG_MAPPING[ALIKE[part][0]]().to_dict()
    apart = {key for key in theirs.keys() & stated.keys() if theirs[key] != ours.get(key)}
    if "head_dim" not in theirs and "head_dim" in ours:
        apart.add("head_dim")
    for key in sorted(apart - SMALL):
        config = multimodal(part)
        holder = config.get(INSIDE.get(part.removesuffix("_text"), ""), config)["text_config"]
        holder.update(stated)
        del holder[key]
        alone = settings(**{name: size for name, size in stated.items() if name != key})
        taken = getattr(alone, key, stated["hidden_size"] // stated["num_attention_heads"])
        try:
            found = catalog.parse_config(config)
        except ValueError as refused:
            assert key in str(refused)
            continue
        holder[key] = taken
        same = catalog.parse_config(config)
        assert found.architecture == same.architecture, key
        assert found.architecture is not None or found.config == same.config, key


@pytest.mark.parametrize("outer", [True, False])
def test_the_whole_model_says_whether_its_head_is_tied(outer: bool) -> None:
    part = "qwen3_vl_moe_text"
    config = multimodal(part, tie_word_embeddings=outer)
    config["text_config"]["tie_word_embeddings"] = not outer
    room = import_module("transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe")
    settings = CONFIG_MAPPING["qwen3_vl_moe"](
        tie_word_embeddings=outer,
        text_config={**sizes_of(part), "tie_word_embeddings": not outer, "rope_scaling": SECTIONS},
        vision_config={"depth": 1, "deepstack_visual_indexes": []},
    )
    with torch.device("meta"):
        whole = room.Qwen3VLMoeForConditionalGeneration(settings)
    tied = whole.get_output_embeddings().weight is whole.get_input_embeddings().weight
    found = catalog.parse_config(config).architecture
    assert found is not None and found.tied is tied is outer


@pytest.mark.parametrize("whole", ["qwen2_vl", "qwen2_5_vl"])
def test_older_files_have_its_sizes_beside_the_towers(whole: str) -> None:
    name = NAMES[f"{whole}_text"].removesuffix("Text")
    flat = {
        **SIZES,
        "model_type": whole,
        "architectures": [f"{name}ForConditionalGeneration"],
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        "vision_config": {"depth": 2, "hidden_size": 32},
    }
    found = catalog.parse_config(flat)
    assert found.architecture is not None and found.architecture.family == "qwen2"
    assert found.architecture.hidden == 64 and found.left_out
    with pytest.raises(ValueError, match="quantization_config"):
        catalog.parse_config({**flat, "quantization_config": {"bits": 4}})
