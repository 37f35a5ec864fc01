"""SmolLM3: Llama with some layers left unrotated.

Checked against transformers 5.23.0 ``models/smollm3``. A layer without rotation keeps
the same bytes as one with it (its kernel saves the projections instead of what was
rotated) and needs less while it runs, so all layers count as rotated.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.catalog.families.base import Heads, LayerTypes, Positions, RotaryConfig, Window, wrong

Rotations = Annotated[list[Annotated[int, Field(ge=0, le=1)]], Field(max_length=1000)]


class SmolLM3Config(RotaryConfig):
    """``model_type`` smollm3: unrotated layers may slide, with ``use_sliding_window``."""

    model_type: Literal["smollm3"]
    num_key_value_heads: Heads | None = 4
    max_position_embeddings: Positions = 32_768
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    mlp_bias: bool = False
    use_sliding_window: bool = False
    sliding_window: Window | None = None
    no_rope_layers: Rotations | None = None
    no_rope_layer_interval: Annotated[int, Field(ge=1, le=1000)] = 4
    layer_types: LayerTypes | None = None

    @property
    def rotated(self) -> list[int]:
        """1 for each layer with rotation, 0 for one without."""
        if self.no_rope_layers is not None:
            return self.no_rope_layers
        return [
            int((layer + 1) % self.no_rope_layer_interval != 0)
            for layer in range(self.num_hidden_layers)
        ]

    def slides(self, layer: int) -> bool:
        """Those without rotation, which changes no size by itself."""
        return not self.rotated[layer]

    @model_validator(mode="after")
    def _rotations_fit(self) -> Self:
        if len(self.rotated) < self.num_hidden_layers:
            raise wrong(
                "no_rope_layers",
                f"{len(self.rotated)} entries for {self.num_hidden_layers} num_hidden_layers",
            )
        return self
