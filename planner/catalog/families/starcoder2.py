"""StarCoder2: LayerNorm, biases, an MLP without a gate, windows, and dropout where stated.

Checked against transformers 5.23.0 ``models/starcoder2``.
"""

from __future__ import annotations

from typing import Any, Literal

from planner.catalog.families.base import Dropout, Heads, Name, Positions, RotaryConfig, Window


class Starcoder2Config(RotaryConfig):
    """``model_type`` starcoder2: every layer slides when a window is stated."""

    model_type: Literal["starcoder2"]
    num_key_value_heads: Heads | None = 2
    hidden_act: Name = "gelu_pytorch_tanh"
    max_position_embeddings: Positions = 4096
    tie_word_embeddings: bool = True
    sliding_window: Window | None = None
    residual_dropout: Dropout = 0.0
    embedding_dropout: Dropout = 0.0
    use_bias: bool = True

    @property
    def rates(self) -> tuple[float, ...]:
        """The three dropouts that the modules apply in training."""
        return (self.attention_dropout or 0.0, self.residual_dropout, self.embedding_dropout)

    @property
    def dropouts(self) -> tuple[str, ...]:
        """None has to be 0: what they save is derived, for all of them together."""
        return ()

    def underived(self) -> str:
        """One rate stands for three, so they are all on or all off."""
        if len({rate > 0 for rate in self.rates}) > 1:
            return (
                "attention_dropout, residual_dropout and embedding_dropout must be all 0 "
                "or all above 0"
            )
        return super().underived()

    def switches(self) -> dict[str, Any]:
        """``use_bias`` puts biases on every linear layer; ``dropout`` is the largest rate."""
        biases = dict.fromkeys(("qkv_bias", "o_bias", "mlp_bias"), self.use_bias)
        return {"norm": "layernorm", "gated": False, "dropout": max(self.rates), **biases}
