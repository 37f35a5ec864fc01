"""Phi-3, Phi-3.5, Phi-4 and Phi-4-mini: fused projections, sometimes partial rotary.

Checked against transformers 5.23.0 ``models/phi3``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from planner.catalog.families.base import Dropout, Positions, RotaryConfig, Window


class Phi3Config(RotaryConfig):
    """``model_type`` phi3: one projection for q, k, v and one for gate and up; no biases."""

    allow_partial_rotary: ClassVar[bool] = True

    model_type: Literal["phi3"]
    max_position_embeddings: Positions = 4096
    sliding_window: Window | None = None
    resid_pdrop: Dropout = 0.0
    lm_head_bias: bool = False

    @property
    def dropouts(self) -> tuple[str, ...]:
        """``embd_pdrop`` is a field of the config that no module reads."""
        return ("attention_dropout", "resid_pdrop")

    def underived(self) -> str:
        """The bias of the head exists in Microsoft's own code only."""
        if self.lm_head_bias:
            return "lm_head_bias is not a setting of phi3 in transformers"
        return super().underived()

    def switches(self) -> dict[str, Any]:
        """Every layer slides when a window is stated."""
        return {"fused_qkv": True, "fused_gate_up": True}
