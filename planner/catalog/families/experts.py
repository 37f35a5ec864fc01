"""Mixtures of experts: Qwen3-MoE, Mixtral and OLMoE.

Checked against transformers 5.23.0 ``models/{qwen3_moe,mixtral,olmoe}``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from planner.catalog.families.base import (
    Heads,
    Intermediate,
    Positions,
    RotaryConfig,
    Window,
    wrong,
)

Experts = Annotated[int, Field(ge=1, le=4096)]
LayerIndices = Annotated[list[Annotated[int, Field(ge=0, le=999)]], Field(max_length=1000)]

ROW_MULTIPLE = 8
"""``grouped_mm`` wants rows of whole 16 bytes, which is 8 values in half precision."""


class _Sparse(RotaryConfig):
    """What the families share: experts of equal size, ``num_experts_per_tok`` of them a token."""

    num_experts_per_tok: Experts
    output_router_logits: bool = False

    @property
    def experts(self) -> int:
        """Routed experts of a sparse layer."""
        return int(self.stated("num_experts") or self.stated("num_local_experts"))

    @property
    def expert_width(self) -> int:
        """Intermediate size of one expert, unless ``intermediate_size`` is that of dense layers."""
        return int(self.stated("moe_intermediate_size") or self.intermediate_size)

    @model_validator(mode="after")
    def _enough_experts(self) -> Self:
        if self.num_experts_per_tok > self.experts:
            raise wrong(
                "num_experts_per_tok",
                f"{self.num_experts_per_tok} are more than the {self.experts} experts",
            )
        return self

    def underived(self) -> str:
        """The auxiliary loss keeps every layer's router logits; it is not derived."""
        if self.output_router_logits:
            return "output_router_logits (the auxiliary loss) is not derived; set it to false"
        if self.hidden_size % ROW_MULTIPLE or self.expert_width % ROW_MULTIPLE:
            return (
                f"torch's grouped_mm refuses experts of {self.hidden_size} by "
                f"{self.expert_width}: both have to be multiples of {ROW_MULTIPLE}"
            )
        return super().underived()

    def switches(self) -> dict[str, Any]:
        """Experts in place of the MLP."""
        return {
            "experts": self.experts,
            "experts_per_token": self.num_experts_per_tok,
            "expert_intermediate": self.expert_width,
            "routing_normalised": self.stated("norm_topk_prob", False),
        }


class Qwen3MoeConfig(_Sparse):
    """``model_type`` qwen3_moe: layers with experts, and perhaps some with one MLP.

    Every layer slides when the window is in use.
    """

    model_type: Literal["qwen3_moe"]
    num_key_value_heads: Heads | None = 4
    max_position_embeddings: Positions = 32_768
    attention_bias: bool = False
    use_sliding_window: bool = False
    sliding_window: Window | None = 4096
    num_experts: Experts
    moe_intermediate_size: Intermediate
    norm_topk_prob: bool = False
    decoder_sparse_step: Annotated[int, Field(ge=1, le=1000)] = 1
    mlp_only_layers: LayerIndices | None = None

    @model_validator(mode="before")
    @classmethod
    def _either_name(cls, data: Any) -> Any:
        """Transformers 5 writes ``num_local_experts`` where the Hub's files say ``num_experts``."""
        if isinstance(data, dict) and "num_experts" not in data and "num_local_experts" in data:
            return {**data, "num_experts": data["num_local_experts"]}
        return data

    @property
    def dense(self) -> tuple[int, ...]:
        """Layers with one MLP, by the rule of ``Qwen3MoeDecoderLayer``."""
        only = self.mlp_only_layers or []
        return tuple(
            layer
            for layer in range(self.num_hidden_layers)
            if layer in only or (layer + 1) % self.decoder_sparse_step
        )

    def switches(self) -> dict[str, Any]:
        """Heads are normalised as in Qwen3."""
        return {**super().switches(), "qk_norm": True, "dense_layers": self.dense}


class MixtralConfig(_Sparse):
    """``model_type`` mixtral: ``intermediate_size`` is that of one expert; no biases."""

    model_type: Literal["mixtral"]
    num_key_value_heads: Heads | None = 8
    max_position_embeddings: Positions = 131_072
    sliding_window: Window | None = None
    num_local_experts: Experts
    router_jitter_noise: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def underived(self) -> str:
        """Jitter multiplies the hidden states in place."""
        if self.router_jitter_noise:
            return "router_jitter_noise above 0 is not derived for mixtral; set it to 0"
        return super().underived()

    def switches(self) -> dict[str, Any]:
        """Routing weights are normalised and stay in fp32."""
        return {**super().switches(), "routing_normalised": True, "routing_fp32": True}


class OlmoeConfig(_Sparse):
    """``model_type`` olmoe: queries and keys normalised over all heads at once; no window."""

    model_type: Literal["olmoe"]
    max_position_embeddings: Positions = 4096
    attention_bias: bool = False
    clip_qkv: Annotated[float, Field(gt=0)] | None = None
    num_experts: Experts
    norm_topk_prob: bool = False

    def underived(self) -> str:
        """Clipping changes queries, keys and values in place."""
        if self.clip_qkv is not None:
            return "clip_qkv is not derived for olmoe; set it to null"
        return super().underived()

    def switches(self) -> dict[str, Any]:
        """Two norms of all heads' width."""
        return {**super().switches(), "qk_norm": True, "qk_norm_whole": True}
