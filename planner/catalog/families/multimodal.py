"""The language model inside a multimodal config, in the words of a type that is planned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

TEXT_PARTS = {
    "gemma3": "gemma3_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
}
"""Multimodal types whose ``text_config`` need not say that it is of the type on the right."""

FLAT = ("qwen2_vl", "qwen2_5_vl")
"""Multimodal types whose older files have the language model's sizes beside the tower's."""

GLM_4V: Mapping[str, Any] = {"head_dim": None, "partial_rotary_factor": 1.0, "pad_token_id": None}
"""Heads that share the hidden size among them and rotate whole, where no file says otherwise."""

ALIKE: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "qwen2_vl_text": ("qwen2", {"num_key_value_heads": 8}),
    "qwen2_5_vl_text": ("qwen2", {"num_key_value_heads": 8}),
    "qwen2_5_omni_text": ("qwen2", {"num_key_value_heads": 4}),
    "qwen3_vl_text": ("qwen3", {}),
    "qwen3_vl_moe_text": ("qwen3_moe", {"num_key_value_heads": 16}),
    "qwen3_omni_moe_text": ("qwen3_moe", {}),
    "glm4v_text": ("glm4", GLM_4V),
    "glm_ocr_text": (
        "glm4",
        {**GLM_4V, "num_key_value_heads": 8, "attention_bias": False},
    ),
    "glm4v_moe_text": ("glm4_moe", {"attention_bias": True, "vocab_size": 151_424}),
    "paddleocr_vl_text": ("ernie4_5", {}),
    "granite4_vision_text": ("granite", {}),
    "granite_docling_text": (
        "granite",
        {
            "vocab_size": 133_800,
            "hidden_size": 1024,
            "intermediate_size": 2048,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "tie_word_embeddings": True,
            "pad_token_id": 100_256,
            "bos_token_id": 100_257,
            "eos_token_id": 100_257,
        },
    ),
    "hunyuan_vl_text": ("hunyuan_v1_dense", {}),
}
"""Language models without a causal class of their own: the type that they are to the weight, and
what transformers takes where a file does not say and that type has another default.

What their forward keeps is the same, but for the cosines of each token's three positions, once.
"""

INSIDE = {"qwen2_5_omni": "thinker_config", "qwen3_omni_moe": "thinker_config"}
"""Types of several models, and where the one is that answers in text."""

WHOLE = ("emu3", "mllama")
"""Multimodal types whose causal class reads the whole config."""

COMPRESSED = ("quantization_config", "compression_config")
"""What a checkpoint of compressed weights says, by today's name and an older one."""

MODEL_TYPE = re.compile(r"[A-Za-z0-9][\w.\-]{0,63}", re.ASCII)


def model_type_of(config: Mapping[str, Any]) -> str:
    """The config's ``model_type``; ``ValueError`` when it is missing or not a name."""
    value = config.get("model_type")
    if not isinstance(value, str) or not MODEL_TYPE.fullmatch(value):
        raise ValueError("config: model_type is missing or not a name, such as llama or qwen2.")
    return value


def part_of(config: Mapping[str, Any]) -> str:
    """The type of the language model inside a multimodal config; empty where there is none.

    A ``text_config`` names its own type, but in files of the types that :data:`TEXT_PARTS` has.
    """
    config = _that_answers(config)
    outer, nested = model_type_of(config), config.get("text_config")
    if outer in WHOLE:
        return ""
    if outer in FLAT and nested is None:
        return f"{outer}_text"
    named = nested.get("model_type") if isinstance(nested, dict) else None
    inner = named if isinstance(named, str) and MODEL_TYPE.fullmatch(named) else ""
    return TEXT_PARTS.get(outer) or (inner if inner != outer else "")


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a multimodal config; the config itself otherwise.

    Raises:
        ValueError: for a quantised checkpoint, whose weights are not the trained ones.
    """
    config = _that_answers(config)
    part = part_of(config)
    nested = config.get("text_config") if part else None
    if nested is None and model_type_of(config) in FLAT:
        nested = {key: value for key, value in config.items() if key != "model_type"}
    for level in (config, nested):
        for name in COMPRESSED:
            if isinstance(level, Mapping) and level.get(name) is not None:
                raise ValueError(
                    f"config: {name} is set; give the config.json of the unquantised model "
                    "and choose qlora as finetuning."
                )
    if not part:
        return config
    if not isinstance(nested, dict):
        raise ValueError("config: text_config is missing; it holds the language model's sizes.")
    if nested.get("model_type", part) != part:
        raise ValueError(f"config: text_config has another model_type than {part}.")
    # The whole model ties its head, whatever its language model's own file would do alone.
    tying = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
    return _alike({**nested, **tying, "model_type": part})


def _that_answers(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a type of several models the one that answers in text; else the config itself."""
    inner = config.get(INSIDE.get(model_type_of(config), ""))
    return inner if isinstance(inner, dict) else config


def _alike(part: dict[str, Any]) -> Mapping[str, Any]:
    """A language model in the words of the type that it is; itself where it is one of its own.

    How its three positions are told apart goes: of rotations only the share of a head has a size.
    """
    if part["model_type"] not in ALIKE:
        return part
    other, defaults = ALIKE[part["model_type"]]
    if "num_local_experts" in part:
        part.setdefault("num_experts", part["num_local_experts"])
    for holder in ("rope_scaling", "rope_parameters"):
        rotation = part.pop(holder, None)
        if isinstance(rotation, dict) and "partial_rotary_factor" in rotation:
            part.setdefault("partial_rotary_factor", rotation["partial_rotary_factor"])
    found = {**defaults, **part, "model_type": other}
    if found.get("head_dim", 0) is None:
        hidden, heads = found.get("hidden_size"), found.get("num_attention_heads")
        if isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
            found["head_dim"] = hidden // heads
    return found
