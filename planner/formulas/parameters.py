"""How many parameters a dense decoder has, weight by weight, and how many LoRA trains.

Closed form from an :class:`~planner.catalog.architecture.Architecture`; the names are
those of the transformers 5.23.0 modules, with ``{layer}`` for the layer's index, and
the counts equal the modules' exactly. Imports the architecture only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from planner.catalog.architecture import Architecture

WeightKind = Literal["embedding", "position", "linear", "bias", "norm", "lm_head"]

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

    @property
    def per_layer(self) -> bool:
        """Whether every layer has one."""
        return "{layer}" in self.name

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
    gpt2 = architecture.family == "gpt2"
    body = _gpt2_body(architecture) if gpt2 else _rotary_body(architecture)
    return (*body, *_head(architecture, head))


def layer_weights(architecture: Architecture) -> tuple[Weight, ...]:
    """The tensors that every layer has."""
    return tuple(weight for weight in weights(architecture) if weight.per_layer)


def parameter_count(architecture: Architecture) -> int:
    """Parameters of the causal language model, tied embeddings once."""
    return _elements(weights(architecture))


def layer_parameter_count(architecture: Architecture) -> int:
    """Parameters of one layer."""
    return sum(weight.elements for weight in layer_weights(architecture))


def value_model_parameter_count(architecture: Architecture) -> int:
    """Parameters of a critic: the same body with one score a token.

    As ``AutoModelForTokenClassification`` builds it with one label: a linear layer with
    a bias in place of the vocabulary head. Its dropout has no parameters. Gemma 3 has no
    such class in transformers; its count is of the body with the same head.
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
        found += layer.norm("self_attn.q_norm", a.head_dim)
        found += layer.norm("self_attn.k_norm", a.head_dim)
    if a.fused_gate_up:
        found += layer.linear("mlp.gate_up_proj", a.hidden, 2 * a.intermediate, bias=a.mlp_bias)
    else:
        found += layer.linear("mlp.gate_proj", a.hidden, a.intermediate, bias=a.mlp_bias)
        found += layer.linear("mlp.up_proj", a.hidden, a.intermediate, bias=a.mlp_bias)
    found += layer.linear("mlp.down_proj", a.intermediate, a.hidden, bias=a.mlp_bias)
    norms = ["input_layernorm", "post_attention_layernorm"]
    if a.norms_per_layer == 4:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for name in norms:
        found += layer.norm(name, a.hidden)
    found += model.norm("norm", a.hidden)
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
        name = "classifier" if a.family == "gpt2" else "score"
        return top.linear(name, a.hidden, 1, bias=True)
    if head == "sequence-score":
        return top.linear("score", a.hidden, 1, bias=False)
    raise ValueError(f"head: {head!r} is not one of lm, token-score, sequence-score.")
