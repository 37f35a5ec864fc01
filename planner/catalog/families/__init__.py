"""Architecture families whose config.json we read with schemas of our own.

``read`` turns a parsed config.json into its family's schema; ``model_type`` alone
decides which, so that nothing a stranger wrote is ever imported or run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError

from planner.catalog.families.base import FamilyConfig, one_sentence
from planner.catalog.families.experts import MixtralConfig, OlmoeConfig, Qwen3MoeConfig
from planner.catalog.families.gemma import Gemma2Config, Gemma3TextConfig
from planner.catalog.families.glm import Glm4Config, GlmConfig
from planner.catalog.families.gpt2 import GPT2Config
from planner.catalog.families.gpt_neox import GPTNeoXConfig
from planner.catalog.families.llama import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
from planner.catalog.families.olmo import Olmo2Config, Olmo3Config
from planner.catalog.families.phi3 import Phi3Config
from planner.catalog.families.smollm3 import SmolLM3Config
from planner.catalog.families.starcoder2 import Starcoder2Config

SCHEMAS: tuple[type[FamilyConfig], ...] = (
    *(LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config, Phi3Config, SmolLM3Config),
    *(Gemma2Config, Gemma3TextConfig, GlmConfig, Glm4Config, Olmo2Config, Olmo3Config),
    *(MixtralConfig, OlmoeConfig, Qwen3MoeConfig),
    *(GPT2Config, GPTNeoXConfig, Starcoder2Config),
)
FAMILIES: Mapping[str, type[FamilyConfig]] = {
    get_args(schema.model_fields["model_type"].annotation)[0]: schema for schema in SCHEMAS
}
"""``model_type`` to schema, for the families whose activations are derived by hand."""

TEXT_PARTS = {
    "gemma3": "gemma3_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
}
"""Multimodal types whose ``text_config`` need not say that it is of the type on the right."""

FLAT = ("qwen2_vl", "qwen2_5_vl")
"""Multimodal types whose older files have the language model's sizes beside the tower's."""

ALIKE = {
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}
"""Language models without a causal class of their own, and the type that they are to the weight.

What their forward keeps is the same, but for the cosines of each token's three positions, once.
"""

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
    tying = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
    return _alike({**tying, **nested, "model_type": part})


def _alike(part: dict[str, Any]) -> Mapping[str, Any]:
    """A language model in the words of the type that it is; itself where it is one of its own."""
    other = ALIKE.get(part["model_type"])
    if other is None:
        return part
    if "num_local_experts" in part:
        part.setdefault("num_experts", part["num_local_experts"])
    return {**part, "model_type": other}


def read(config: Mapping[str, Any]) -> FamilyConfig | None:
    """The config in its family's schema; None for a type that no schema covers.

    Raises:
        ValueError: one sentence that names the first bad field.
    """
    config = text_config(config)
    schema = FAMILIES.get(model_type_of(config))
    if schema is None:
        return None
    try:
        return schema.model_validate(dict(config))
    except ValidationError as error:
        raise ValueError(one_sentence(error)) from None
