"""The models of a run: policy, reference, critic, reward model.

A role knows its parameter counts by part (layer, root, head, adapters) and the dtype
its weights are kept in. Counts are elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from planner.catalog.architecture import Architecture
from planner.formulas import parameters
from planner.formulas.lora import lora_tensor_count, trainable_lora_parameters


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
    value_head: bool = False

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
    return Role(
        name=name,
        arch=arch,
        parameters=total,
        layer_parameters=layer,
        root_parameters=total - arch.layers * layer,
        head_parameters=head,
        largest_weight=max(weight.elements for weight in listed),
        largest_layer_weight=max(
            weight.elements for weight in listed if weight.kind in ("linear",)
        ),
        layout=tuple((weight.count, weight.elements / total) for weight in listed),
        adapters=adapters,
        adapter_tensors=lora_tensor_count(arch, lora_targets) if adapters else 1,
        layer_adapters=layer_adapters,
        trainable=(adapters or total) if trained else 0,
        weight_bytes=weight_bytes,
        value_head=value_head,
    )
