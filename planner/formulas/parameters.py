"""How many parameters a decoder has, weight by weight, and how many LoRA trains.

Closed form from an :class:`~planner.catalog.architecture.Architecture`; the names are
those of the transformers 5.23.0 modules, with ``{layer}`` for the layer's index, and
the counts equal the modules' exactly. Models with measured coefficients have a list of
their weights beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from planner.catalog import measured
from planner.catalog.architecture import Architecture

WeightKind = Literal[
    "embedding", "position", "linear", "bias", "norm", "lm_head", "router", "experts"
]

Head = Literal["lm", "token-score"]
"""What stands on the body: the vocabulary, or one score a token with a bias (a critic, and a
reward model)."""


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
    """Width of the input of a linear weight, or of each expert's; 0 for other kinds."""
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
        """Name of the module that owns the tensor, such as ``q_proj``; experts' is their own."""
        return self.name.removesuffix(".weight").split(".")[-1]

    @property
    def matrices(self) -> int:
        """How many matrices of its widths it holds: one of each expert."""
        return self.elements // (self.in_features * self.out_features)

    @property
    def total_elements(self) -> int:
        """Elements of all of them."""
        return self.elements * self.count


@lru_cache(maxsize=256)
def weights(architecture: Architecture, head: Head = "lm") -> tuple[Weight, ...]:
    """Every parameter tensor, in the order of the modules; a tied head is not repeated."""
    bodies = {"gpt2": _gpt2_body, "gpt_neox": _gpt_neox_body}
    body = bodies.get(architecture.family, _rotary_body)
    if architecture.measured:
        body = _measured_body
    return (*body(architecture), *_head(architecture, head))


def layer_weights(architecture: Architecture) -> tuple[Weight, ...]:
    """The tensors of layers, of both kinds where some are sparse."""
    return tuple(weight for weight in weights(architecture) if weight.per_layer)


def parameter_count(architecture: Architecture) -> int:
    """Parameters of the causal language model, tied embeddings once."""
    return _elements(weights(architecture))


def active_parameter_count(architecture: Architecture) -> int:
    """Parameters that one token uses: all but the routed experts it is not sent to."""
    routed = sum(weight.total_elements for weight in _routed(architecture))
    return parameter_count(architecture) - routed + active_experts_parameter_count(architecture)


def active_experts_parameter_count(architecture: Architecture) -> int:
    """Parameters of the routed experts that one token is sent to."""
    share = architecture.experts_per_token / max(architecture.experts, 1)
    return round(sum(weight.total_elements for weight in _routed(architecture)) * share)


@lru_cache(maxsize=256)
def expert_width(architecture: Architecture) -> float:
    """Width of a routed expert as three matrices between it and the stream have it.

    By the elements of its tensors, so that experts of two matrices are two thirds as wide; 0 where
    no layer routes.
    """
    a = architecture
    matrices = [one for one in _routed(a) if not one.name.endswith("bias")]
    return sum(one.elements for one in matrices) / (3.0 * a.experts * a.hidden) if matrices else 0.0


def _routed(architecture: Architecture) -> tuple[Weight, ...]:
    return tuple(one for one in layer_weights(architecture) if one.kind == "experts")


def active_layers_parameter_count(architecture: Architecture) -> int:
    """The same of the layers alone."""
    outside = [weight for weight in weights(architecture) if not weight.per_layer]
    return active_parameter_count(architecture) - _elements(tuple(outside))


def quantizable_parameter_count(architecture: Architecture) -> int:
    """Parameters of the layers' linear weights and experts, which engines keep in fewer bits."""
    found = layer_weights(architecture)
    return _elements(tuple(one for one in found if one.kind in ("linear", "experts")))


def layer_parameter_count(architecture: Architecture) -> int:
    """Parameters of one layer, the largest where sparse layers stand among dense ones."""
    found = layer_weights(architecture)
    dense = architecture.dense_layers
    sparse = next(layer for layer in range(len(dense) + 1) if layer not in dense)
    looked_at = range(architecture.layers) if architecture.measured else {sparse, *dense[:1]}
    return max(
        sum(weight.elements for weight in found if weight.in_layer(layer)) for layer in looked_at
    )


@lru_cache(maxsize=1024)
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


def _elements(found: tuple[Weight, ...]) -> int:
    return sum(weight.total_elements for weight in found)


class _Body:
    """Collects weights in the order of the modules; ``{layer}`` in a name means every layer."""

    def __init__(self, arch: Architecture) -> None:
        self.arch = arch
        self.found: list[Weight] = []

    def add(
        self,
        name: str,
        kind: WeightKind,
        elements: int,
        *,
        shape: tuple[int, int] = (0, 0),
        layers: tuple[int, ...] = (),
    ) -> None:
        """One tensor, or one in each of ``layers``; all of them where none are named."""
        count = (len(layers) or self.arch.layers) if "{layer}" in name else 1
        partial = layers if len(layers) < self.arch.layers else ()
        ins, outs = shape
        weight = Weight(
            name=name,
            kind=kind,
            elements=elements,
            count=count,
            in_features=ins,
            out_features=outs,
            layers=partial,
        )
        self.found.append(weight)

    def linear(
        self, name: str, ins: int, outs: int, *, bias: bool, layers: tuple[int, ...] = ()
    ) -> None:
        """A linear layer's matrix and, where it has one, its bias."""
        self.add(f"{name}.weight", "linear", ins * outs, shape=(ins, outs), layers=layers)
        if bias:
            self.add(f"{name}.bias", "bias", outs, layers=layers)

    def norm(self, name: str, size: int) -> None:
        """A norm's scale and, for LayerNorm, its shift."""
        self.add(f"{name}.weight", "norm", size)
        if self.arch.norm == "layernorm":
            self.add(f"{name}.bias", "norm", size)

    def table(self, name: str, rows: int, kind: WeightKind = "embedding") -> None:
        """A table of hidden vectors."""
        self.add(f"{name}.weight", kind, rows * self.arch.hidden)

    def mlp(self, up: tuple[str, ...], down: str, width: int, layers: tuple[int, ...] = ()) -> None:
        """Projections up to ``width`` and down again."""
        a = self.arch
        for name in up:
            self.linear(name, a.hidden, width, bias=a.mlp_bias, layers=layers)
        self.linear(down, a.intermediate, a.hidden, bias=a.mlp_bias, layers=layers)


def _rotary_body(a: Architecture) -> list[Weight]:
    """Llama and everything that keeps its module names."""
    body, layer = _Body(a), "model.layers.{layer}."
    attention, mlp = f"{layer}self_attn.", f"{layer}mlp."
    query, key = a.heads * a.head_dim, a.kv_heads * a.head_dim
    body.table("model.embed_tokens", a.vocab)
    parts = {"q_proj": query, "k_proj": key, "v_proj": key}
    if a.fused_qkv:
        parts = {"qkv_proj": query + 2 * key}
    for name, width in parts.items():
        body.linear(attention + name, a.hidden, width, bias=a.qkv_bias)
    body.linear(f"{attention}o_proj", query, a.hidden, bias=a.o_bias)
    if a.qk_norm:
        whole = a.qk_norm_whole
        body.norm(f"{attention}q_norm", query if whole else a.head_dim)
        body.norm(f"{attention}k_norm", key if whole else a.head_dim)
    gated = (f"{mlp}gate_proj", f"{mlp}up_proj"), f"{mlp}down_proj", a.intermediate
    if a.sparse_layers:
        _experts(body, mlp)
    if a.experts:
        if a.dense_layers:
            body.mlp(*gated, a.dense_layers)
    elif a.fused_gate_up:
        body.mlp((f"{mlp}gate_up_proj",), f"{mlp}down_proj", 2 * a.intermediate)
    elif a.gated:
        body.mlp(*gated)
    else:
        body.mlp((f"{mlp}c_fc",), f"{mlp}c_proj", a.intermediate)
    norms = ["input_layernorm", "post_attention_layernorm"]
    if a.family == "glm4":
        norms += ["post_self_attn_layernorm", "post_mlp_layernorm"]
    elif a.norms_per_layer == 4:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    if a.family in ("olmo2", "olmo3"):
        norms = ["post_attention_layernorm", "post_feedforward_layernorm"]
    for name in norms:
        body.norm(layer + name, a.hidden)
    body.norm("model.norm", a.hidden)
    return body.found


def _experts(body: _Body, mlp: str) -> None:
    """A router and two tensors of all experts in each sparse layer."""
    a = body.arch
    sparse = tuple(n for n in range(a.layers) if n not in a.dense_layers)
    up = a.experts * a.hidden * 2 * a.expert_intermediate
    body.add(f"{mlp}gate.weight", "router", a.experts * a.hidden, layers=sparse)
    hidden, inside = a.hidden, a.expert_intermediate
    for name, size, shape in (
        ("gate_up_proj", up, (hidden, 2 * inside)),
        ("down_proj", up // 2, (inside, hidden)),
    ):
        body.add(f"{mlp}experts.{name}", "experts", size, shape=shape, layers=sparse)


def _gpt2_body(a: Architecture) -> list[Weight]:
    """GPT-2, whose linear layers are ``Conv1D`` modules with the matrix transposed."""
    body, layer = _Body(a), "transformer.h.{layer}."
    body.table("transformer.wte", a.vocab)
    body.table("transformer.wpe", a.learned_positions, "position")
    body.norm(f"{layer}ln_1", a.hidden)
    body.linear(f"{layer}attn.c_attn", a.hidden, 3 * a.hidden, bias=a.qkv_bias)
    body.linear(f"{layer}attn.c_proj", a.hidden, a.hidden, bias=a.o_bias)
    body.norm(f"{layer}ln_2", a.hidden)
    body.mlp((f"{layer}mlp.c_fc",), f"{layer}mlp.c_proj", a.intermediate)
    body.norm("transformer.ln_f", a.hidden)
    return body.found


def _gpt_neox_body(a: Architecture) -> list[Weight]:
    """GPT-NeoX, with one projection for q, k and v, and biases."""
    body, layer = _Body(a), "gpt_neox.layers.{layer}."
    body.table("gpt_neox.embed_in", a.vocab)
    body.norm(f"{layer}input_layernorm", a.hidden)
    body.norm(f"{layer}post_attention_layernorm", a.hidden)
    body.linear(f"{layer}attention.query_key_value", a.hidden, 3 * a.hidden, bias=a.qkv_bias)
    body.linear(f"{layer}attention.dense", a.hidden, a.hidden, bias=a.o_bias)
    body.mlp((f"{layer}mlp.dense_h_to_4h",), f"{layer}mlp.dense_4h_to_h", a.intermediate)
    body.norm("gpt_neox.final_layer_norm", a.hidden)
    return body.found


def _measured_body(a: Architecture) -> list[Weight]:
    """The list that stands beside a measured model's coefficients, without its head."""
    body = _Body(a)
    for name, kind, elements, ins, outs, places in measured.entry(a.measured)["weights"]:
        layers = tuple(n for n, there in enumerate(places) if there == "1")
        if kind != "lm_head":
            body.add(name, kind, elements, shape=(ins, outs), layers=layers)
    return body.found


def _head(a: Architecture, head: Head) -> list[Weight]:
    if head not in get_args(Head):
        raise ValueError(f"head: {head!r} is not one of {', '.join(get_args(Head))}.")
    top = _Body(a)
    if head == "token-score":
        name = "classifier" if a.family in ("gpt2", "gpt_neox") else "score"
        top.linear(name, a.hidden, 1, bias=True)
    elif not a.tied:
        top.add("lm_head.weight", "lm_head", a.vocab * a.hidden, shape=(a.hidden, a.vocab))
    return top.found
