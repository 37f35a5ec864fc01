"""How many parameters a decoder has, weight by weight, and how many LoRA trains.

A fold over the tape of a layer (:mod:`planner.formulas.activations.decoder`): the weights of its
products and norms, by the names of the transformers 5.23.0 modules, with ``{layer}`` for the index
of the layer; the counts equal the modules' exactly. Models with measured coefficients have a list
of their weights beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Literal, get_args

from planner.catalog import measured
from planner.catalog.architecture import Architecture
from planner.formulas.activations.decoder import layer_record
from planner.formulas.activations.kinds import KINDS
from planner.formulas.activations.setting import PLAIN
from planner.formulas.activations.tape import Scale
from planner.formulas.activations.terms import sizes_of_a_token

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
    """Width of the input of a matrix, or of each expert's; 0 for other kinds."""
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
    """Every parameter tensor, in the order of a forward; a tied head is not repeated."""
    body = _measured_body if architecture.measured else _body
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


@lru_cache(maxsize=256)
def active_experts_parameter_count(architecture: Architecture) -> int:
    """Parameters of the routed experts that one token is sent to."""
    share = architecture.experts_per_token / max(architecture.experts, 1)
    return round(sum(weight.total_elements for weight in _routed(architecture)) * share)


@lru_cache(maxsize=256)
def projections_parameter_count(architecture: Architecture) -> int:
    """Weights of the layers' matrices that every token meets.

    Of a measured model all weights but the experts', since its list gives some matrices no widths.
    """
    if architecture.measured:
        active = active_layers_parameter_count(architecture)
        return active - active_experts_parameter_count(architecture)
    met = (one for one in layer_weights(architecture) if one.kind in ("linear", "router"))
    return _elements(tuple(met))


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


MODULES = {
    "gpt2": ("transformer", "h", "wte", "ln_f"),
    "gpt_neox": ("gpt_neox", "layers", "embed_in", "final_layer_norm"),
}
USUAL_MODULES = ("model", "layers", "embed_tokens", "norm")
"""What a body is called, its layers, its table of embeddings and its last norm."""


def _body(a: Architecture) -> Iterator[Weight]:
    """The layers' weights as their tape has them, between the embeddings and the last norm."""
    model, layers, table, last = MODULES.get(a.family, USUAL_MODULES)
    yield _weight(f"{model}.{table}.weight", "embedding", a.vocab * a.hidden)
    if a.learned_positions:
        yield _weight(f"{model}.wpe.weight", "position", a.learned_positions * a.hidden)
    found: dict[Weight, list[int]] = {}
    dense = a.dense_layers if a.experts else range(a.layers)
    for sparse in (True, False):
        places = [layer for layer in range(a.layers) if (layer in dense) != sparse]
        for weight in _of_layer(a, f"{model}.{layers}.{{layer}}.", sparse) if places else ():
            found.setdefault(weight, []).extend(places)
    for weight, places in found.items():
        some = tuple(sorted(places)) if len(places) < a.layers else ()
        yield replace(weight, count=len(places), layers=some)
    yield from _norm(a, f"{model}.{last}", a.hidden)


def _of_layer(a: Architecture, prefix: str, sparse: bool) -> Iterator[Weight]:
    """One layer's products and norms, in the order in which it runs them."""
    sizes = sizes_of_a_token(a)
    for one in layer_record(a, PLAIN._replace(sparse=sparse)).modules:
        path = prefix + one.path
        if isinstance(one, Scale):
            yield from _norm(a, path, int(KINDS[one.shape, "value"].of(sizes)))
            continue
        rows, ins, outs = (
            int(KINDS[shape, "value"].of(sizes)) for shape in (one.rows, one.given, one.made)
        )
        shape = ins // rows, outs // rows
        if one.rows == "routed":
            yield _weight(path, "experts", a.experts * prod(shape), shape)
            continue
        kind: WeightKind = "router" if one.made == "router" else "linear"
        yield _weight(f"{path}.weight", kind, prod(shape), shape)
        if one.bias:
            yield _weight(f"{path}.bias", "bias", shape[1])


def _norm(a: Architecture, path: str, size: int) -> Iterator[Weight]:
    """A norm's scale and, for LayerNorm, its shift."""
    for name in ("weight", "bias") if a.norm == "layernorm" else ("weight",):
        yield _weight(f"{path}.{name}", "norm", size)


def _weight(
    name: str, kind: WeightKind, elements: int, shape: tuple[int, int] = (0, 0)
) -> Weight:
    ins, outs = shape
    return Weight(
        name=name, kind=kind, elements=elements, count=1, in_features=ins, out_features=outs
    )


def _measured_body(a: Architecture) -> Iterator[Weight]:
    """The list that stands beside a measured model's coefficients, without its head."""
    for name, kind, elements, ins, outs, places in measured.entry(a.measured)["weights"]:
        layers = tuple(n for n, there in enumerate(places) if there == "1")
        if kind != "lm_head":
            some = layers if len(layers) < a.layers else ()
            count = (len(layers) or a.layers) if "{layer}" in name else 1
            weight = _weight(name, kind, elements, (ins, outs))
            yield replace(weight, count=count, layers=some)


def _head(a: Architecture, head: Head) -> Iterator[Weight]:
    if head not in get_args(Head):
        raise ValueError(f"head: {head!r} is not one of {', '.join(get_args(Head))}.")
    if head == "token-score":
        name = "classifier" if a.family in ("gpt2", "gpt_neox") else "score"
        yield _weight(f"{name}.weight", "linear", a.hidden, (a.hidden, 1))
        yield _weight(f"{name}.bias", "bias", 1)
    elif not a.tied:
        yield _weight("lm_head.weight", "lm_head", a.vocab * a.hidden, (a.hidden, a.vocab))
