"""The models of a run: policy, reference, critic, reward model.

A role knows its parameter counts by part (layer, root, head, adapters) and the dtype
its weights are kept in. Counts are elements.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

from planner.catalog.architecture import Architecture
from planner.formulas import parameters
from planner.formulas.lora import lora_tensor_count, lora_weights, trainable_lora_parameters
from planner.formulas.parameters import Weight
from planner.numeric import Num, ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Weights of one shape, as FSDP2 splits them: by rows."""

    rows: int
    width: int
    """Elements of a row."""
    count: int
    """How many the model has."""
    in_layer: int
    """How many of them one layer has, the kind with more weights."""
    per_layer: bool
    adapter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One model of the run and what of it is trained.

    ``root`` is everything outside the layers: embedding, final norm and head (what
    FSDP2 keeps in its root group). ``trainable`` equals ``parameters`` for full
    fine-tuning, the adapters for LoRA, 0 for a frozen role. ``layout`` lists how many
    weights have which share of the parameters.
    """

    name: str
    arch: Architecture
    parameters: int
    layer_parameters: int
    root_parameters: int
    head_parameters: int
    largest_weight: int
    largest_layer_weight: int
    layout: tuple[tuple[int, float], ...]
    adapters: int
    adapter_tensors: int
    layer_adapters: int
    trainable: int
    weight_bytes: int
    splits: tuple[Split, ...]
    value_head: bool = False
    disabled: bool = False
    """Its adapters are on the GPU and out of the computation."""

    def padding(self, shards: Num) -> Num:
        """Elements that a split of every weight along its first dimension adds in all."""
        return _padding(shards, [(each, each.count) for each in self.splits if not each.adapter])

    def layer_padding(self, shards: Num) -> Num:
        """Those of one layer with its adapters, the kind of layer with more weights."""
        return _padding(shards, [(each, each.in_layer) for each in self.splits])

    def root_padding(self, shards: Num) -> Num:
        """Those outside the layers."""
        return _padding(shards, [(each, each.count) for each in self.splits if not each.per_layer])

    def adapter_padding(self, shards: Num) -> Num:
        """Those of all adapters."""
        return _padding(shards, [(each, each.count) for each in self.splits if each.adapter])

    def without_adapters(self) -> Role:
        """The same model with its adapters disabled: a reference that costs no weights."""
        return replace(self, disabled=True)

    @property
    def trained(self) -> bool:
        """Whether the optimizer touches this role."""
        return self.trainable > 0

    @property
    def layer_trainable(self) -> int:
        """Trained elements of one layer."""
        return self.layer_adapters if self.adapters else self.layer_parameters

    @property
    def trained_layout(self) -> tuple[tuple[int, float], ...]:
        """How trained weights are spread; empty for adapters, which are of one size."""
        return () if self.adapters else self.layout

    @property
    def root_trainable(self) -> int:
        """Trained elements outside the layers."""
        return 0 if self.adapters else self.root_parameters


@lru_cache(maxsize=512)
def role(
    name: str,
    arch: Architecture,
    *,
    weight_bytes: int,
    trained: bool,
    value_head: bool = False,
    lora_rank: int = 0,
    lora_targets: tuple[str, ...] = (),
) -> Role:
    """The role of a model; ``value_head`` replaces the vocabulary head by hidden → 1.

    Raises:
        ValueError: naming ``lora_targets`` when a target is not a projection of the model.
    """
    total = (
        parameters.value_model_parameter_count(arch)
        if value_head
        else parameters.parameter_count(arch)
    )
    layer = parameters.layer_parameter_count(arch)
    listed = parameters.weights(arch, "token-score" if value_head else "lm")
    layer_adapters = 0
    if trained and lora_rank:
        adapters = trainable_lora_parameters(arch, lora_rank, lora_targets)
        layer_adapters = adapters // arch.layers
    else:
        adapters = 0
    head = arch.hidden if value_head else arch.vocab * arch.hidden
    chosen = lora_weights(arch, lora_targets) if adapters else ()
    return Role(
        name=name,
        arch=arch,
        parameters=total,
        layer_parameters=layer,
        root_parameters=sum(weight.elements for weight in listed if not weight.per_layer),
        head_parameters=head,
        largest_weight=max(weight.elements for weight in listed),
        largest_layer_weight=max(
            weight.elements for weight in listed if weight.kind in ("linear", "experts")
        ),
        layout=tuple((weight.count, weight.elements / total) for weight in listed),
        adapters=adapters,
        adapter_tensors=lora_tensor_count(arch, lora_targets) if adapters else 1,
        layer_adapters=layer_adapters,
        trainable=(adapters or total) if trained else 0,
        weight_bytes=weight_bytes,
        splits=(*_splits(arch, listed), *_adapter_splits(arch, chosen, lora_rank)),
        value_head=value_head,
    )


def _splits(arch: Architecture, listed: tuple[Weight, ...]) -> tuple[Split, ...]:
    """Every weight by its first dimension, equal ones together."""
    largest = _largest_layer(arch)
    found: Counter[tuple[int, int, bool]] = Counter()
    inside: Counter[tuple[int, int, bool]] = Counter()
    for weight in listed:
        rows = _rows(arch, weight)
        key = (rows, weight.elements // rows, weight.per_layer)
        found[key] += weight.count
        inside[key] += weight.in_layer(largest)
    return tuple(
        Split(rows=rows, width=width, count=count, in_layer=inside[key], per_layer=key[2])
        for key, count in found.items()
        for rows, width in (key[:2],)
    )


def _rows(arch: Architecture, weight: Weight) -> int:
    """The first dimension: experts, vocabulary or positions, outputs; all of a vector."""
    if weight.kind == "experts":
        return arch.experts
    if weight.kind in ("embedding", "position"):
        return weight.elements // arch.hidden
    if weight.out_features:
        # GPT-2's layers are stored the other way round.
        stored_by_input = arch.family == "gpt2" and weight.per_layer
        return weight.in_features if stored_by_input else weight.out_features
    return weight.elements


def _largest_layer(arch: Architecture) -> int:
    if not arch.sparse_layers:
        return 0
    return next(layer for layer in range(arch.layers) if layer not in arch.dense_layers)


def _adapter_splits(arch: Architecture, chosen: tuple[Weight, ...], rank: int) -> tuple[Split, ...]:
    shapes = [
        shape
        for weight in chosen
        for shape in ((rank, weight.in_features, weight), (weight.out_features, rank, weight))
    ]
    return tuple(
        Split(
            rows=rows,
            width=width,
            count=weight.count,
            in_layer=int(weight.in_layer(0)),
            per_layer=True,
            adapter=True,
        )
        for rows, width, weight in shapes
    )


def _padding(shards: Num, counted: list[tuple[Split, int]]) -> Num:
    """Ranks hold equal numbers of rows, those that are missing made up."""
    added: Num = 0
    for split, count in counted:
        if count:
            rest = ceil_div(split.rows, shards) * shards - split.rows
            added = added + count * split.width * rest
    return added
