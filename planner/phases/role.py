"""The models of a run: policy, reference, critic, reward model.

A role knows its parameter counts by part (layer, root, head, adapters) and the dtype
its weights are kept in. Counts are elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from planner.catalog.architecture import Architecture
from planner.formulas import parameters, sharding
from planner.formulas.lora import lora_tensor_count, lora_weights, trainable_lora_parameters
from planner.formulas.parameters import Weight
from planner.numeric import Num, ceil_div, remembered
from planner.term import Term

Part = Literal["weights", "layer", "root", "adapters"]


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

    def of(self, part: Part) -> bool:
        """Whether it is among a part of the model."""
        among = {"root": not self.per_layer, "weights": not self.adapter, "adapters": self.adapter}
        return among.get(part, True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Role:
    """One model of the run and what of it is trained; bundles of terms are looked up by it.

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
    linear_adapters: int
    """Of ``adapters``, those of linear layers, which autocast casts; not those of experts."""
    layer_adapters: int
    trainable: int
    weight_bytes: int
    splits: tuple[Split, ...]
    value_head: bool = False
    disabled: bool = False
    """Its adapters are on the GPU and out of the computation."""
    second_adapter: bool = False
    """Frozen adapters of the same shapes stand beside those that train."""
    answers_frozen: bool = False
    """These compute, and not those that train."""

    @remembered
    def padding(self, part: Part, shards: Num) -> Num:
        """Elements that a split along the first dimension adds: ranks hold equal numbers of rows.

        Of one ``layer`` with its adapters it is the kind of layer with more weights; ``root`` is
        what is outside the layers.
        """
        added: Num = 0
        for each in self.splits:
            count = each.in_layer if part == "layer" else each.count
            if count and each.of(part):
                both = part == "layer" and each.adapter and self.second_adapter
                count += count * both
                missing = ceil_div(each.rows, shards) * shards - each.rows
                added = added + count * each.width * missing
        return added

    def largest_tensor(self) -> Term:
        """The largest weight on its way."""
        return sharding.LARGEST_TENSOR(
            self.name, largest_weight=self.largest_weight, value_bytes=self.weight_bytes
        )

    @lru_cache(maxsize=512)  # noqa: B019
    def as_reference(self) -> Role:
        """The same model with its second adapters, or with none: a reference of few weights."""
        return replace(self, disabled=not self.second_adapter, answers_frozen=self.second_adapter)

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
    second_adapter: bool = False,
) -> Role:
    """The role of a model; ``value_head`` replaces the vocabulary head by hidden → 1.

    Raises:
        ValueError: naming ``lora_targets`` when a target is not a projection of the model.
    """
    count = parameters.value_model_parameter_count if value_head else parameters.parameter_count
    total = count(arch)
    listed = parameters.weights(arch, "token-score" if value_head else "lm")
    adapters = 0
    if trained and lora_rank:
        adapters = trainable_lora_parameters(arch, lora_rank, lora_targets)
    chosen = lora_weights(arch, lora_targets) if adapters else ()
    return Role(
        name=name,
        arch=arch,
        parameters=total,
        layer_parameters=parameters.layer_parameter_count(arch),
        root_parameters=sum(weight.elements for weight in listed if not weight.per_layer),
        head_parameters=arch.hidden * (1 if value_head else arch.vocab),
        largest_weight=max(weight.elements for weight in listed),
        largest_layer_weight=max(
            weight.elements
            for weight in listed
            if weight.kind in ("linear", "experts") or (arch.measured and weight.per_layer)
        ),
        layout=tuple((weight.count, weight.elements / total) for weight in listed),
        adapters=adapters,
        adapter_tensors=lora_tensor_count(arch, lora_targets) if adapters else 1,
        linear_adapters=lora_rank
        * sum(
            one.count * (one.in_features + one.out_features)
            for one in chosen
            if one.kind == "linear"
        ),
        layer_adapters=adapters // arch.layers,
        trainable=(adapters or total) if trained else 0,
        weight_bytes=weight_bytes,
        splits=(*_splits(arch, listed), *_adapter_splits(arch, chosen, lora_rank)),
        value_head=value_head,
        second_adapter=second_adapter,
    )


def _splits(arch: Architecture, listed: tuple[Weight, ...]) -> Iterator[Split]:
    """Every weight by its first dimension, equal ones together."""
    sparse = (layer for layer in range(arch.layers) if layer not in arch.dense_layers)
    largest = next(sparse) if arch.sparse_layers else 0
    found: Counter[tuple[int, int, bool]] = Counter()
    inside: Counter[tuple[int, int, bool]] = Counter()
    for weight in listed:
        rows = _rows(arch, weight)
        key = (rows, weight.elements // rows, weight.per_layer)
        found[key] += weight.count
        inside[key] += weight.in_layer(largest)
    for key, count in found.items():
        rows, width, per_layer = key
        yield Split(rows=rows, width=width, count=count, in_layer=inside[key], per_layer=per_layer)


def _rows(arch: Architecture, weight: Weight) -> int:
    """The first dimension: experts, vocabulary or positions, outputs; all of a vector."""
    if weight.kind == "experts":
        return arch.experts
    if weight.kind in ("embedding", "position"):
        return max(weight.elements // arch.hidden, 1)  # tables may be narrower than the layers
    if weight.out_features:
        # GPT-2's layers are stored the other way round.
        stored_by_input = arch.family == "gpt2" and weight.per_layer
        return weight.in_features if stored_by_input else weight.out_features
    return weight.elements


def _adapter_splits(arch: Architecture, chosen: tuple[Weight, ...], rank: int) -> Iterator[Split]:
    for weight in chosen:
        inside, all_ranks = int(weight.in_layer(0)), rank * weight.matrices
        for rows, width in ((all_ranks, weight.in_features), (weight.out_features, all_ranks)):
            yield Split(
                rows=rows,
                width=width,
                count=weight.count,
                in_layer=inside,
                per_layer=True,
                adapter=True,
            )


@lru_cache(maxsize=512)
def head_role(arch: Architecture, weight_bytes: int) -> Role:
    """A reference whose hidden states are cached: the frozen head, tied there or not, no layers."""
    elements = arch.vocab * arch.hidden
    return replace(
        role("reference", arch, weight_bytes=weight_bytes, trained=False),
        parameters=elements,
        layer_parameters=0,
        root_parameters=elements,
        head_parameters=elements,
        largest_weight=elements,
        largest_layer_weight=0,
        layout=((1, 1.0),),
        splits=(Split(rows=arch.vocab, width=arch.hidden, count=1, in_layer=0, per_layer=False),),
    )


@lru_cache(maxsize=512)
def with_value_head(policy: Role) -> Role:
    """A policy whose body a critic shares: one row of weights and a bias more, always trained."""
    hidden, more = policy.arch.hidden, policy.arch.hidden + 1
    total = policy.parameters + more
    layout = tuple((count, share * policy.parameters / total) for count, share in policy.layout)
    return replace(
        policy,
        parameters=total,
        root_parameters=policy.root_parameters + more,
        layout=(*layout, (1, hidden / total), (1, 1 / total)),
        trainable=policy.trainable + more,
        adapter_tensors=policy.adapter_tensors + 2 * (policy.adapters > 0),
        splits=(
            *policy.splits,
            Split(rows=1, width=hidden, count=1, in_layer=0, per_layer=False),
            Split(rows=1, width=1, count=1, in_layer=0, per_layer=False),
        ),
    )
