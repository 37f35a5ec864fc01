"""GLM-4: half of each head rotated in pairs, gate and up fused; the 0414 models with four norms.

Checked against transformers 5.23.0 ``models/{glm,glm4}``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from planner.catalog.families.base import Fraction, HeadDim, Heads, Positions, RotaryConfig


class _Glm(RotaryConfig):
    allow_partial_rotary: ClassVar[bool] = True
    norms: ClassVar[int] = 2

    num_key_value_heads: Heads | None = 2
    head_dim: HeadDim = 128
    max_position_embeddings: Positions = 131_072
    partial_rotary_factor: Fraction | None = 0.5
    attention_bias: bool = True

    def switches(self) -> dict[str, Any]:
        """``attention_bias`` is about q, k and v; o has none."""
        return {"norms_per_layer": self.norms, "o_bias": False, "fused_gate_up": True}


class GlmConfig(_Glm):
    """``model_type`` glm: norms before attention and MLP."""

    model_type: Literal["glm"]


class Glm4Config(_Glm):
    """``model_type`` glm4: norms before and after attention and MLP."""

    norms: ClassVar[int] = 4

    model_type: Literal["glm4"]
