"""What the formulas need to know of a decoder-only transformer.

A plain value built from a ``config.json`` by :mod:`planner.catalog.families`; no
torch, no transformers. Sizes are element counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Dimensions and switches of one dense decoder-only model.

    Field names follow the papers: ``hidden`` h, ``intermediate`` i, ``heads`` and
    ``kv_heads`` query and key/value heads, ``head_dim`` d, ``vocab`` V.
    """

    family: str
    """The config's ``model_type``."""
    hidden: int
    layers: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_positions: int
    tied: bool
    """lm_head shares the embedding's weight."""
    norm: Literal["rmsnorm", "layernorm"]
    activation: str
    """Hidden activation as the config names it, such as ``silu`` or ``gelu_new``."""
    gated: bool
    """SwiGLU/GeGLU (two projections up) rather than one."""
    norms_per_layer: int = 2
    qk_norm: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    fused_qkv: bool = False
    """One projection for q, k and v (Phi-3, GPT-2)."""
    fused_gate_up: bool = False
    rotary: bool = True
    rotary_dim: int = 0
    """Rotated part of a head; equals ``head_dim`` unless partial."""
    learned_positions: int = 0
    """Rows of a learned position table (GPT-2), else 0."""
    sliding_window: int = 0
    """Tokens a sliding layer attends to; 0 when every layer is global."""
    sliding_layers: int = 0
    """How many layers slide."""
    attention_softcap: float = 0.0
    logit_softcap: float = 0.0
    dropout: float = 0.0
    """Residual/attention/embedding dropout active in training (GPT-2), else 0."""
