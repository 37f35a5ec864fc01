"""How many parameters a decoder has, weight by weight, and how many LoRA trains.

Closed form from an :class:`~planner.catalog.architecture.Architecture`; the names are
those of the transformers 5.23.0 modules, with ``{layer}`` for the layer's index, and
the counts equal the modules' exactly. Models with measured coefficients have a list of
their weights beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from planner.catalog import measured
from planner.catalog.architecture import Architecture

WeightKind = Literal[
    "embedding", "position", "linear", "bias", "norm", "lm_head", "router", "experts"
]

Head = Literal["lm", "token-score", "sequence-score"]
"""What stands on the body: the vocabulary; one score a token (a critic, with a bias);
one score a sequence (a reward model, without)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One parameter tensor, or the ``count`` equal ones of all layers."""

    name: str
    """Name in the model's ``state_dict``, with ``{layer}`` where the index stands."""
    kind: WeightKind
    elements: int
    """Elements of one tensor."""
    count: int
    """Layers that have it; 1 for the model's own."""
    in_features: int = 0
    """Width of a linear weight's input; 0 for other kinds."""
    out_features: int = 0
    layers: tuple[int, ...] = ()
    """Indices of the layers that have it, where not all have one; else empty."""

    @property
    def per_layer(self) -> bool:
        """Whether layers have one."""
        return "{layer}" in self.name

    def in_layer(self, layer: int) -> bool:
        """Whether this layer has one."""
        return self.per_layer and (not self.layers or layer in self.layers)

    @property
    def module(self) -> str:
        """Name of the module that owns the tensor, such as ``q_proj``."""
        return self.name.split(".")[-2]

    @property
    def total_elements(self) -> int:
        """Elements of all of them."""
        return self.elements * self.count


@lru_cache(maxsize=256)
def weights(architecture: Architecture, head: Head = "lm") -> tuple[Weight, ...]:
    """Every parameter tensor, in the order of the modules; a tied head is not repeated."""
    if architecture.measured:
        return (*_measured_body(architecture), *_head(architecture, head))
    bodies = {"gpt2": _gpt2_body, "gpt_neox": _gpt_neox_body}
    body = bodies.get(architecture.family, _rotary_body)(architecture)
    return (*body, *_head(architecture, head))


def layer_weights(architecture: Architecture) -> tuple[Weight, ...]:
    """The tensors of layers, of both kinds where some are sparse."""
    return tuple(weight for weight in weights(architecture) if weight.per_layer)


def parameter_count(architecture: Architecture) -> int:
    """Parameters of the causal language model, tied embeddings once."""
    return _elements(weights(architecture))


def active_parameter_count(architecture: Architecture) -> int:
    """Parameters that one token uses: all but the routed experts it is not sent to."""
    share = architecture.experts_per_token / architecture.experts if architecture.experts else 1
    found = weights(architecture)
    routed = sum(weight.total_elements for weight in found if weight.kind == "experts")
    return _elements(found) - routed + round(routed * share)


def active_layers_parameter_count(architecture: Architecture) -> int:
    """The same of the layers alone."""
    outside = [weight for weight in weights(architecture) if not weight.per_layer]
    return active_parameter_count(architecture) - _elements(tuple(outside))


def layer_parameter_count(architecture: Architecture) -> int:
    """Parameters of one layer, the largest where sparse layers stand among dense ones."""
    found = layer_weights(architecture)
    dense = architecture.dense_layers
    sparse = next(layer for layer in range(len(dense) + 1) if layer not in dense)
    looked_at = range(architecture.layers) if architecture.measured else {sparse, *dense[:1]}
    return max(
        sum(weight.elements for weight in found if weight.in_layer(layer)) for layer in looked_at
    )


def layers_parameter_count(architecture: Architecture, layers: range) -> int:
    """Parameters of some layers together."""
    found = layer_weights(architecture)
    return sum(weight.elements for n in layers for weight in found if weight.in_layer(n))


def value_model_parameter_count(architecture: Architecture) -> int:
    """Parameters of a critic: the same body with one score a token.

    As ``AutoModelForTokenClassification`` builds it with one label: a linear layer with
    a bias in place of the vocabulary head. Its dropout has no parameters. Gemma 3 and
    OLMoE have no such class in transformers; their count is of the body with the same head.
    """
    return _elements(weights(architecture, "token-score"))


def reward_model_parameter_count(architecture: Architecture) -> int:
    """Parameters of a reward model: ``AutoModelForSequenceClassification``, one label."""
    return _elements(weights(architecture, "sequence-score"))


def parameter_tensor_count(architecture: Architecture, head: Head = "lm") -> int:
    """How many parameter tensors the model has (the allocator rounds each of them)."""
    return sum(weight.count for weight in weights(architecture, head))


def _elements(found: tuple[Weight, ...]) -> int:
    return sum(weight.total_elements for weight in found)


@dataclass(frozen=True, slots=True)
class _Builder:
    """Names weights under a prefix, ``count`` of each."""

    prefix: str
    count: int
    layers: tuple[int, ...] = ()

    def linear(self, name: str, ins: int, outs: int, *, bias: bool) -> tuple[Weight, ...]:
        """A linear layer's matrix and, where it has one, its bias."""
        matrix = self._weight(
            f"{name}.weight", "linear", ins * outs, in_features=ins, out_features=outs
        )
        return (matrix, self._weight(f"{name}.bias", "bias", outs)) if bias else (matrix,)

    def norm(self, name: str, size: int, *, bias: bool = False) -> tuple[Weight, ...]:
        """A norm's scale and, for LayerNorm, its shift."""
        scale = self._weight(f"{name}.weight", "norm", size)
        return (scale, self._weight(f"{name}.bias", "norm", size)) if bias else (scale,)

    def table(self, name: str, kind: WeightKind, rows: int, width: int) -> tuple[Weight, ...]:
        """An embedding table."""
        return (self._weight(f"{name}.weight", kind, rows * width),)

    def tensor(self, name: str, kind: WeightKind, elements: int) -> Weight:
        """A parameter that is no module's ``weight``."""
        return self._weight(name, kind, elements)

    def _weight(
        self,
        name: str,
        kind: WeightKind,
        elements: int,
        *,
        in_features: int = 0,
        out_features: int = 0,
    ) -> Weight:
        return Weight(
            name=self.prefix + name,
            kind=kind,
            elements=elements,
            count=self.count,
            in_features=in_features,
            out_features=out_features,
            layers=self.layers,
        )


def _rotary_body(a: Architecture) -> tuple[Weight, ...]:
    """Llama and everything that keeps its module names."""
    model, layer = _Builder("model.", 1), _Builder("model.layers.{layer}.", a.layers)
    query, key = a.heads * a.head_dim, a.kv_heads * a.head_dim
    found = list(model.table("embed_tokens", "embedding", a.vocab, a.hidden))
    if a.fused_qkv:
        found += layer.linear("self_attn.qkv_proj", a.hidden, query + 2 * key, bias=a.qkv_bias)
    else:
        for name, width in (("q_proj", query), ("k_proj", key), ("v_proj", key)):
            found += layer.linear(f"self_attn.{name}", a.hidden, width, bias=a.qkv_bias)
    found += layer.linear("self_attn.o_proj", query, a.hidden, bias=a.o_bias)
    if a.qk_norm:
        whole = a.qk_norm_whole
        found += layer.norm("self_attn.q_norm", query if whole else a.head_dim)
        found += layer.norm("self_attn.k_norm", key if whole else a.head_dim)
    if a.experts:
        found += _sparse_mlps(a)
    elif a.fused_gate_up:
        found += layer.linear("mlp.gate_up_proj", a.hidden, 2 * a.intermediate, bias=a.mlp_bias)
        found += layer.linear("mlp.down_proj", a.intermediate, a.hidden, bias=a.mlp_bias)
    elif a.gated:
        found += _gated_mlp(a, layer)
    else:
        found += layer.linear("mlp.c_fc", a.hidden, a.intermediate, bias=a.mlp_bias)
        found += layer.linear("mlp.c_proj", a.intermediate, a.hidden, bias=a.mlp_bias)
    norms = ["input_layernorm", "post_attention_layernorm"]
    if a.family == "glm4":
        norms += ["post_self_attn_layernorm", "post_mlp_layernorm"]
    elif a.norms_per_layer == 4:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    if a.family in ("olmo2", "olmo3"):
        norms = ["post_attention_layernorm", "post_feedforward_layernorm"]
    shifted = a.norm == "layernorm"
    for name in norms:
        found += layer.norm(name, a.hidden, bias=shifted)
    found += model.norm("norm", a.hidden, bias=shifted)
    return tuple(found)


def _gated_mlp(a: Architecture, layer: _Builder) -> tuple[Weight, ...]:
    return (
        *layer.linear("mlp.gate_proj", a.hidden, a.intermediate, bias=a.mlp_bias),
        *layer.linear("mlp.up_proj", a.hidden, a.intermediate, bias=a.mlp_bias),
        *layer.linear("mlp.down_proj", a.intermediate, a.hidden, bias=a.mlp_bias),
    )


def _sparse_mlps(a: Architecture) -> tuple[Weight, ...]:
    """A router and two tensors of all experts in sparse layers, one MLP in the others."""
    prefix = "model.layers.{layer}."
    found: list[Weight] = []
    if a.sparse_layers:
        dense = a.dense_layers
        chosen = tuple(n for n in range(a.layers) if n not in dense) if dense else ()
        layer = _Builder(prefix, a.sparse_layers, chosen)
        up = a.experts * a.hidden * 2 * a.expert_intermediate
        found.append(layer.tensor("mlp.gate.weight", "router", a.experts * a.hidden))
        found.append(layer.tensor("mlp.experts.gate_up_proj", "experts", up))
        found.append(layer.tensor("mlp.experts.down_proj", "experts", up // 2))
    if a.dense_layers:
        found += _gated_mlp(a, _Builder(prefix, len(a.dense_layers), a.dense_layers))
    return tuple(found)


def _gpt2_body(a: Architecture) -> tuple[Weight, ...]:
    """GPT-2, whose linear layers are ``Conv1D`` modules with the matrix transposed."""
    model, layer = _Builder("transformer.", 1), _Builder("transformer.h.{layer}.", a.layers)
    found = list(model.table("wte", "embedding", a.vocab, a.hidden))
    found += model.table("wpe", "position", a.learned_positions, a.hidden)
    found += layer.norm("ln_1", a.hidden, bias=True)
    found += layer.linear("attn.c_attn", a.hidden, 3 * a.hidden, bias=a.qkv_bias)
    found += layer.linear("attn.c_proj", a.hidden, a.hidden, bias=a.o_bias)
    found += layer.norm("ln_2", a.hidden, bias=True)
    found += layer.linear("mlp.c_fc", a.hidden, a.intermediate, bias=a.mlp_bias)
    found += layer.linear("mlp.c_proj", a.intermediate, a.hidden, bias=a.mlp_bias)
    found += model.norm("ln_f", a.hidden, bias=True)
    return tuple(found)


def _gpt_neox_body(a: Architecture) -> tuple[Weight, ...]:
    """GPT-NeoX, with one projection for q, k and v, and biases."""
    model, layer = _Builder("gpt_neox.", 1), _Builder("gpt_neox.layers.{layer}.", a.layers)
    found = list(model.table("embed_in", "embedding", a.vocab, a.hidden))
    found += layer.norm("input_layernorm", a.hidden, bias=True)
    found += layer.norm("post_attention_layernorm", a.hidden, bias=True)
    found += layer.linear("attention.query_key_value", a.hidden, 3 * a.hidden, bias=a.qkv_bias)
    found += layer.linear("attention.dense", a.hidden, a.hidden, bias=a.o_bias)
    found += layer.linear("mlp.dense_h_to_4h", a.hidden, a.intermediate, bias=a.mlp_bias)
    found += layer.linear("mlp.dense_4h_to_h", a.intermediate, a.hidden, bias=a.mlp_bias)
    found += model.norm("final_layer_norm", a.hidden, bias=True)
    return tuple(found)


def _measured_body(a: Architecture) -> tuple[Weight, ...]:
    """The list that stands beside a measured model's coefficients, without its head."""
    return tuple(
        Weight(
            name=name,
            kind=kind,
            elements=elements,
            count=places.count("1") if places else 1,
            in_features=ins,
            out_features=outs,
            layers=tuple(n for n, there in enumerate(places) if there == "1")
            if "0" in places
            else (),
        )
        for name, kind, elements, ins, outs, places in measured.entry(a.measured)["weights"]
        if kind != "lm_head"
    )


def _head(a: Architecture, head: Head) -> tuple[Weight, ...]:
    top = _Builder("", 1)
    if head == "lm":
        matrix = Weight(
            name="lm_head.weight",
            kind="lm_head",
            elements=a.vocab * a.hidden,
            count=1,
            in_features=a.hidden,
            out_features=a.vocab,
        )
        return () if a.tied else (matrix,)
    if head == "token-score":
        name = "classifier" if a.family in ("gpt2", "gpt_neox") else "score"
        return top.linear(name, a.hidden, 1, bias=True)
    if head == "sequence-score":
        return top.linear("score", a.hidden, 1, bias=False)
    raise ValueError(f"head: {head!r} is not one of lm, token-score, sequence-score.")
