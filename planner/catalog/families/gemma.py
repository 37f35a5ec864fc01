"""Gemma 2 and Gemma 3 (text): four norms a layer, GeGLU, alternating windows, softcaps.

Checked against transformers 5.23.0 ``models/{gemma2,gemma3}``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from planner.catalog.architecture import Architecture
from planner.catalog.families.base import (
    HeadDim,
    Heads,
    LayerType,
    LayerTypes,
    Name,
    Positions,
    RotaryConfig,
    Softcap,
    Vocab,
    Window,
)


class _Gemma(RotaryConfig):
    hidden_activation: Name = "gelu_pytorch_tanh"
    num_attention_heads: Heads = 8
    num_key_value_heads: Heads | None = 4
    head_dim: HeadDim | None = 256
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    sliding_window: Window = 4096
    layer_types: LayerTypes | None = None
    use_bidirectional_attention: bool | None = None

    @property
    def activation(self) -> str:
        """Gemma reads ``hidden_activation``; ``hidden_act`` is a leftover of Gemma 1."""
        return self.hidden_activation

    @property
    def pattern(self) -> int:
        """Every how many layers one attends to everything."""
        raise NotImplementedError

    @property
    def types(self) -> list[LayerType]:
        """Attention of each layer, as the config class derives it."""
        if self.layer_types is not None:
            return self.layer_types
        return [
            "sliding_attention" if (layer + 1) % self.pattern else "full_attention"
            for layer in range(self.num_hidden_layers)
        ]

    @model_validator(mode="after")
    def _types_fit(self) -> _Gemma:
        self.checked_types(self.layer_types, ["full_attention"] * self.num_hidden_layers)
        return self

    def underived(self) -> str:
        """An encoder has other masks."""
        if self.use_bidirectional_attention:
            return "use_bidirectional_attention makes an encoder, which is not post-trained here"
        return super().underived()

    def gemma_architecture(
        self, *, qk_norm: bool, attention_softcap: float, logit_softcap: float
    ) -> Architecture:
        """Norms before and after both attention and MLP."""
        return self.rotary_architecture(
            norms_per_layer=4,
            qk_norm=qk_norm,
            qkv_bias=self.attention_bias,
            o_bias=self.attention_bias,
            attention_softcap=attention_softcap,
            logit_softcap=logit_softcap,
            **self.sliding(self.sliding_window, self.types),
        )


class Gemma2Config(_Gemma):
    """``model_type`` gemma2: every other layer slides; softcaps on scores and logits."""

    model_type: Literal["gemma2"]
    max_position_embeddings: Positions = 8192
    attn_logit_softcapping: Softcap | None = 50.0
    final_logit_softcapping: Softcap | None = 30.0

    @property
    def pattern(self) -> int:
        """Layers 1, 3, 5, … slide."""
        return 2

    def architecture(self) -> Architecture:
        """Softcaps as stated; null switches one off."""
        return self.gemma_architecture(
            qk_norm=False,
            attention_softcap=self.attn_logit_softcapping or 0.0,
            logit_softcap=self.final_logit_softcapping or 0.0,
        )


class Gemma3TextConfig(_Gemma):
    """``model_type`` gemma3_text: five sliding layers to one global one, q and k normalised."""

    model_type: Literal["gemma3_text"]
    vocab_size: Vocab = 262_208
    max_position_embeddings: Positions = 131_072
    sliding_window_pattern: Annotated[int, Field(ge=1, le=1000)] = 6
    final_logit_softcapping: Softcap | None = None

    @property
    def pattern(self) -> int:
        """Six on all released checkpoints."""
        return self.sliding_window_pattern

    def architecture(self) -> Architecture:
        """No score softcap: the config has the field, but no kernel is ever given it."""
        return self.gemma_architecture(
            qk_norm=True,
            attention_softcap=0.0,
            logit_softcap=self.final_logit_softcapping or 0.0,
        )
