"""Llama, Qwen2, Qwen3 and Mistral: RMSNorm, rotary positions, SwiGLU, grouped heads.

Checked against transformers 5.23.0 ``models/{llama,qwen2,qwen3,mistral}``.
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from planner.catalog.architecture import Architecture
from planner.catalog.families.base import (
    HeadDim,
    Heads,
    Layers,
    LayerType,
    LayerTypes,
    Positions,
    RotaryConfig,
    Window,
)


class LlamaConfig(RotaryConfig):
    """``model_type`` llama; ``attention_bias`` puts biases on q, k, v and o alike."""

    model_type: Literal["llama"]
    max_position_embeddings: Positions = 2048
    attention_bias: bool = False
    mlp_bias: bool = False

    def architecture(self) -> Architecture:
        """Llama has no window."""
        return self.rotary_architecture(
            qkv_bias=self.attention_bias,
            o_bias=self.attention_bias,
            mlp_bias=self.mlp_bias,
        )


class _Qwen(RotaryConfig):
    """The window of Qwen: only with ``use_sliding_window``, from ``max_window_layers`` on."""

    num_key_value_heads: Heads | None = 32
    max_position_embeddings: Positions = 32_768
    use_sliding_window: bool = False
    sliding_window: Window | None = 4096
    max_window_layers: Layers | Literal[0] = 28
    layer_types: LayerTypes | None = None

    @property
    def types(self) -> list[LayerType]:
        """Attention of each layer, as the config class derives it."""
        if self.layer_types is not None:
            return self.layer_types
        windowed = self.use_sliding_window and self.sliding_window is not None
        return [
            "sliding_attention"
            if windowed and layer >= self.max_window_layers
            else "full_attention"
            for layer in range(self.num_hidden_layers)
        ]

    @model_validator(mode="after")
    def _types_fit(self) -> _Qwen:
        self.checked_types(self.layer_types, ["full_attention"] * self.num_hidden_layers)
        return self

    def windows(self) -> dict[str, int]:
        """Sliding fields of the architecture."""
        window = self.sliding_window if self.use_sliding_window else None
        return self.sliding(window, self.types)


class Qwen2Config(_Qwen):
    """``model_type`` qwen2: q, k and v always have biases, o never."""

    model_type: Literal["qwen2"]

    def architecture(self) -> Architecture:
        """Qwen2's biases are not a setting."""
        return self.rotary_architecture(qkv_bias=True, **self.windows())


class Qwen3Config(_Qwen):
    """``model_type`` qwen3: query and key heads are normalised."""

    model_type: Literal["qwen3"]
    head_dim: HeadDim | None = 128
    attention_bias: bool = False

    def architecture(self) -> Architecture:
        """Adds the norms of query and key."""
        return self.rotary_architecture(
            qk_norm=True,
            qkv_bias=self.attention_bias,
            o_bias=self.attention_bias,
            **self.windows(),
        )


class MistralConfig(RotaryConfig):
    """``model_type`` mistral: every layer slides unless ``sliding_window`` is null."""

    model_type: Literal["mistral"]
    num_key_value_heads: Heads | None = 8
    max_position_embeddings: Positions = 131_072
    sliding_window: Window | None = 4096

    def architecture(self) -> Architecture:
        """No biases anywhere."""
        return self.rotary_architecture(
            **self.sliding(self.sliding_window, ["sliding_attention"] * self.num_hidden_layers)
        )
