"""OLMo 2 and OLMo 3: norms after attention and MLP, q and k normalised over all heads.

Checked against transformers 5.23.0 ``models/{olmo2,olmo3}``.
"""

from __future__ import annotations

from typing import Any, Literal

from planner.catalog.families.base import LayerTypes, Positions, RotaryConfig, Window


class _Olmo(RotaryConfig):
    """Two norms a layer, both of them after what they normalise."""

    max_position_embeddings: Positions = 2048
    attention_bias: bool = False

    def switches(self) -> dict[str, Any]:
        """Queries and keys are normalised over all heads at once."""
        return {"qk_norm": True, "qk_norm_whole": True}


class Olmo2Config(_Olmo):
    """``model_type`` olmo2; no windows."""

    model_type: Literal["olmo2"]


class Olmo3Config(_Olmo):
    """``model_type`` olmo3: three sliding layers to one global one."""

    model_type: Literal["olmo3"]
    sliding_window: Window = 4096
    layer_types: LayerTypes | None = None

    def slides(self, layer: int) -> bool:
        """All but each fourth."""
        return bool((layer + 1) % 4)
