"""Architecture families whose config.json we read with schemas of our own.

``read`` turns a parsed config.json into its family's schema; ``model_type`` alone
decides which, so that nothing a stranger wrote is ever imported or run.
"""

from __future__ import annotations

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
from planner.catalog.families.multimodal import model_type_of, text_config
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
