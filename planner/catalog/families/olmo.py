"""OLMo 2 and OLMo 3: norms after attention and MLP, q and k normalised over all heads.

Checked against transformers 5.23.0 ``models/{olmo2,olmo3}``.
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from planner.catalog.architecture import Architecture
from planner.catalog.families.base import (
    LayerType,
    LayerTypes,
    Positions,
    RotaryConfig,
    Window,
)


class _Olmo(RotaryConfig):
    max_position_embeddings: Positions = 2048
    attention_bias: bool = False

    def olmo_architecture(self, **switches: int) -> Architecture:
        """Two norms a layer, both of them after what they normalise."""
        return self.rotary_architecture(
            qk_norm=True,
            qk_norm_whole=True,
            qkv_bias=self.attention_bias,
            o_bias=self.attention_bias,
            **switches,
        )


class Olmo2Config(_Olmo):
    """``model_type`` olmo2; no windows."""

    model_type: Literal["olmo2"]

    def architecture(self) -> Architecture:
        """Every layer attends to everything."""
        return self.olmo_architecture()


class Olmo3Config(_Olmo):
    """``model_type`` olmo3: three sliding layers to one global one."""

    model_type: Literal["olmo3"]
    sliding_window: Window = 4096
    layer_types: LayerTypes | None = None

    @property
    def types(self) -> list[LayerType]:
        """Attention of each layer, as the config class derives it."""
        if self.layer_types is not None:
            return self.layer_types
        return [
            "sliding_attention" if (layer + 1) % 4 else "full_attention"
            for layer in range(self.num_hidden_layers)
        ]

    @model_validator(mode="after")
    def _types_fit(self) -> Olmo3Config:
        self.checked_types(self.layer_types, ["full_attention"] * self.num_hidden_layers)
        return self

    def architecture(self) -> Architecture:
        """The window of the sliding layers."""
        return self.olmo_architecture(**self.sliding(self.sliding_window, self.types))
