"""GPT-2: LayerNorm, learned positions, biases everywhere, fused q/k/v, dropout.

Checked against transformers 5.23.0 ``models/gpt2``.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from planner.catalog.architecture import Architecture
from planner.catalog.families.base import (
    ACTIVATIONS,
    Dropout,
    FamilyConfig,
    Heads,
    Hidden,
    Intermediate,
    Layers,
    Name,
    Positions,
    Vocab,
    wrong,
)


class GPT2Config(FamilyConfig):
    """``model_type`` gpt2; the three dropouts are 0.1 unless the config says otherwise."""

    model_config = ConfigDict(populate_by_name=True)

    model_type: Literal["gpt2"]
    vocab_size: Vocab
    n_positions: Positions = Field(
        1024, validation_alias=AliasChoices("n_positions", "max_position_embeddings")
    )
    n_embd: Hidden = Field(validation_alias=AliasChoices("n_embd", "hidden_size"))
    n_layer: Layers = Field(validation_alias=AliasChoices("n_layer", "num_hidden_layers"))
    n_head: Heads = Field(validation_alias=AliasChoices("n_head", "num_attention_heads"))
    n_inner: Intermediate | None = None
    activation_function: Name = "gelu_new"
    resid_pdrop: Dropout = 0.1
    embd_pdrop: Dropout = 0.1
    attn_pdrop: Dropout = 0.1
    reorder_and_upcast_attn: bool = False
    add_cross_attention: bool = False
    tie_word_embeddings: bool = True

    @model_validator(mode="after")
    def _heads_fit(self) -> GPT2Config:
        if self.n_embd % self.n_head:
            raise wrong("n_head", f"{self.n_head} does not divide n_embd {self.n_embd}")
        return self

    def underived(self) -> str:
        """Settings that change what autograd saves in ways nobody has derived."""
        if len({rate > 0 for rate in (self.resid_pdrop, self.embd_pdrop, self.attn_pdrop)}) > 1:
            return "resid_pdrop, embd_pdrop and attn_pdrop must be all 0 or all above 0"
        if self.reorder_and_upcast_attn:
            return "reorder_and_upcast_attn has no derived activation sum"
        if self.add_cross_attention:
            return "add_cross_attention makes a decoder of two inputs"
        if self.activation_function not in ACTIVATIONS:
            return f"activation {self.activation_function!r} has no derived activation sum"
        return ""

    def architecture(self) -> Architecture:
        """``n_inner`` is four times the width unless stated; ``dropout`` is the largest rate."""
        return Architecture(
            family="gpt2",
            hidden=self.n_embd,
            layers=self.n_layer,
            intermediate=self.n_inner or 4 * self.n_embd,
            heads=self.n_head,
            kv_heads=self.n_head,
            head_dim=self.n_embd // self.n_head,
            vocab=self.vocab_size,
            max_positions=self.n_positions,
            tied=self.tie_word_embeddings,
            norm="layernorm",
            activation=ACTIVATIONS.get(self.activation_function, self.activation_function),
            gated=False,
            qkv_bias=True,
            o_bias=True,
            mlp_bias=True,
            fused_qkv=True,
            rotary=False,
            learned_positions=self.n_positions,
            dropout=max(self.resid_pdrop, self.embd_pdrop, self.attn_pdrop),
        )
