"""What the formulas need to know of a decoder-only transformer.

A plain value built from a ``config.json`` by :mod:`planner.catalog.families`; no
torch, no transformers. Sizes are element counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EXPERTS = ("gate_up_proj", "down_proj")
"""Tensors of all experts of a layer, by the names that adapt them whole."""

@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Dimensions and switches of one decoder-only model.

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
    qk_norm_whole: bool = False
    """Queries and keys are normalised over all heads at once (OLMo), not head by head."""
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    fused_qkv: bool = False
    """One projection for q, k and v (Phi-3, GPT-2, GPT-NeoX)."""
    fused_gate_up: bool = False
    parallel_residual: bool = False
    """Attention and MLP read the same hidden states, and both are added to them (GPT-NeoX)."""
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
    casts_logits: bool = False
    """The model casts its head's output to fp32 itself (Mamba, Nemotron-H)."""
    dropout: float = 0.0
    """Residual/attention/embedding dropout active in training (GPT-2, StarCoder2), else 0."""
    experts: int = 0
    """Routed experts of a sparse layer; 0 when every layer has one MLP."""
    experts_per_token: int = 0
    expert_intermediate: int = 0
    dense_layers: tuple[int, ...] = ()
    """Among sparse layers, the indices of those that have one MLP of ``intermediate``."""
    routing_normalised: bool = False
    """The chosen experts' probabilities are divided by their sum."""
    routing_fp32: bool = False
    """Routing weights stay in fp32 and widen what they scale (Mixtral)."""
    measured: str = ""
    """Key of the coefficients that a dry run measured, where no sum is derived; else empty."""
    stateful_layers: int = 0
    """Layers of linear attention, which keep a state of fixed size in place of keys and values."""
    state_values: int = 0
    """Numbers of one such layer's state for one sequence, kept in fp32."""
    convolution_values: int = 0
    """Numbers that its convolution keeps of the last tokens, in the compute dtype."""

    uncounted_cache: str = ""
    """Why the cache of keys, values and states could not be counted; empty where it was."""

    def __hash__(self) -> int:
        """Of a few fields that tell models apart: every cached sum is looked up by it."""
        return hash((self.family, self.hidden, self.layers, self.intermediate, self.vocab))

    @property
    def cache_layers(self) -> int:
        """Layers that cache keys and values."""
        return self.layers - self.stateful_layers

    @property
    def sparse_layers(self) -> int:
        """How many layers route their tokens to experts."""
        return self.layers - len(self.dense_layers) if self.experts else 0
