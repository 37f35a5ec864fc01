"""Gemma 2 and Gemma 3 (text): four norms a layer, GeGLU, alternating windows, softcaps.

Checked against transformers 5.23.0 ``models/{gemma2,gemma3}``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planner.catalog.families.base import (
    HeadDim,
    Heads,
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
    final_logit_softcapping: Softcap | None = None

    @property
    def activation(self) -> str:
        """Gemma reads ``hidden_activation``; ``hidden_act`` is a leftover of Gemma 1."""
        return self.hidden_activation

    def slides(self, layer: int) -> bool:
        """All but each ``sliding_window_pattern``-th; every other one in Gemma 2."""
        return bool((layer + 1) % self.stated("sliding_window_pattern", 2))

    def underived(self) -> str:
        """An encoder has other masks."""
        if self.use_bidirectional_attention:
            return "use_bidirectional_attention makes an encoder, which is not post-trained here"
        return super().underived()

    def switches(self) -> dict[str, Any]:
        """Norms before and after both attention and MLP; null switches a softcap off."""
        return {"norms_per_layer": 4, "logit_softcap": self.final_logit_softcapping or 0.0}


class Gemma2Config(_Gemma):
    """``model_type`` gemma2: every other layer slides; softcaps on scores and logits."""

    model_type: Literal["gemma2"]
    max_position_embeddings: Positions = 8192
    attn_logit_softcapping: Softcap | None = 50.0
    final_logit_softcapping: Softcap | None = 30.0

    def switches(self) -> dict[str, Any]:
        """The softcap on scores as stated."""
        return {**super().switches(), "attention_softcap": self.attn_logit_softcapping or 0.0}


class Gemma3TextConfig(_Gemma):
    """``model_type`` gemma3_text: five sliding layers to one global one, q and k normalised."""

    model_type: Literal["gemma3_text"]
    vocab_size: Vocab = 262_208
    max_position_embeddings: Positions = 131_072
    sliding_window_pattern: Annotated[int, Field(ge=1, le=1000)] = 6

    def switches(self) -> dict[str, Any]:
        """No score softcap: the config has the field, but no kernel is ever given it."""
        return {**super().switches(), "qk_norm": True}
