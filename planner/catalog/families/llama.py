"""Llama, Qwen2, Qwen3 and Mistral: RMSNorm, rotary positions, SwiGLU, grouped heads.

Checked against transformers 5.23.0 ``models/{llama,qwen2,qwen3,mistral}``.
"""

from __future__ import annotations

from typing import Any, Literal

from planner.catalog.families.base import (
    HeadDim,
    Heads,
    Layers,
    LayerTypes,
    Positions,
    RotaryConfig,
    Window,
)


class LlamaConfig(RotaryConfig):
    """``model_type`` llama; ``attention_bias`` puts biases on q, k, v and o alike. No window."""

    model_type: Literal["llama"]
    max_position_embeddings: Positions = 2048
    attention_bias: bool = False
    mlp_bias: bool = False


class _Qwen(RotaryConfig):
    """The window of Qwen: only with ``use_sliding_window``, from ``max_window_layers`` on."""

    num_key_value_heads: Heads | None = 32
    max_position_embeddings: Positions = 32_768
    use_sliding_window: bool = False
    sliding_window: Window | None = 4096
    max_window_layers: Layers | Literal[0] = 28
    layer_types: LayerTypes | None = None

    def slides(self, layer: int) -> bool:
        """From ``max_window_layers`` on."""
        return layer >= self.max_window_layers


class Qwen2Config(_Qwen):
    """``model_type`` qwen2: q, k and v always have biases, o never."""

    model_type: Literal["qwen2"]

    def switches(self) -> dict[str, Any]:
        """Qwen2's biases are not a setting."""
        return {"qkv_bias": True}


class Qwen3Config(_Qwen):
    """``model_type`` qwen3: query and key heads are normalised."""

    model_type: Literal["qwen3"]
    head_dim: HeadDim | None = 128
    attention_bias: bool = False

    def switches(self) -> dict[str, Any]:
        """The norms of query and key."""
        return {"qk_norm": True}


class MistralConfig(RotaryConfig):
    """``model_type`` mistral: every layer slides unless ``sliding_window`` is null; no biases."""

    model_type: Literal["mistral"]
    num_key_value_heads: Heads | None = 8
    max_position_embeddings: Positions = 131_072
    sliding_window: Window | None = 4096
