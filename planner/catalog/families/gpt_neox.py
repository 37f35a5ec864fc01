"""GPT-NeoX and Pythia: LayerNorm, biases, fused q/k/v, partial rotary, parallel residual.

Checked against transformers 5.23.0 ``models/gpt_neox``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from planner.catalog.families.base import Dropout, Fraction, Name, Positions, RotaryConfig, wrong


class GPTNeoXConfig(RotaryConfig):
    """``model_type`` gpt_neox; a quarter of each head is rotated unless ``rotary_pct`` is set."""

    allow_partial_rotary: ClassVar[bool] = True

    model_type: Literal["gpt_neox"]
    hidden_act: Name = "gelu"
    max_position_embeddings: Positions = 2048
    partial_rotary_factor: Fraction | None = 0.25
    use_parallel_residual: bool = True
    attention_bias: bool = True
    hidden_dropout: Dropout = 0.0

    @model_validator(mode="before")
    @classmethod
    def _rotary_pct(cls, data: Any) -> Any:
        """``rotary_pct`` is the family's name for ``partial_rotary_factor``, which wins."""
        if not isinstance(data, dict) or "rotary_pct" not in data:
            return data
        holders = (data, data.get("rope_scaling"), data.get("rope_parameters"))
        if any(isinstance(each, dict) and "partial_rotary_factor" in each for each in holders):
            return data
        return {**data, "partial_rotary_factor": data["rotary_pct"]}

    @model_validator(mode="after")
    def _heads_fill_the_width(self) -> GPTNeoXConfig:
        if self.hidden_size % self.num_attention_heads:
            raise wrong(
                "num_attention_heads",
                f"{self.num_attention_heads} does not divide hidden_size {self.hidden_size}",
            )
        return self

    @property
    def kv_heads(self) -> int:
        """One key/value head for every query head; the family has no setting for it."""
        return self.num_attention_heads

    @property
    def dim(self) -> int:
        """The heads share the width; the family has no setting for it."""
        return self.hidden_size // self.num_attention_heads

    @property
    def dropouts(self) -> tuple[str, ...]:
        """``classifier_dropout`` belongs to other heads."""
        return ("attention_dropout", "hidden_dropout")

    def switches(self) -> dict[str, Any]:
        """The MLP always has biases, attention unless told otherwise."""
        return {
            "norm": "layernorm",
            "gated": False,
            "mlp_bias": True,
            "fused_qkv": True,
            "parallel_residual": self.use_parallel_residual,
        }
