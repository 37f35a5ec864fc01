"""Which linear layers LoRA adapts, and how many parameters it adds.

A LoRA adapter of rank r on a layer of shape in × out has two matrices, r × in and
out × r (Hu et al. 2021, https://arxiv.org/abs/2106.09685); no biases are trained.
Counts equal those of peft 0.21.2.
"""

from __future__ import annotations

from planner.catalog.architecture import Architecture
from planner.formulas.parameters import Weight, layer_weights
from planner.numeric import Num

ALL_LINEAR = "all-linear"

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Names a plan may use for any family."""

FUSED = {
    "q_proj": ("qkv_proj", "attn.c_attn", "query_key_value"),
    "k_proj": ("qkv_proj", "attn.c_attn", "query_key_value"),
    "v_proj": ("qkv_proj", "attn.c_attn", "query_key_value"),
    "o_proj": ("attn.c_proj", "attention.dense"),
    "gate_proj": ("gate_up_proj", "mlp.c_fc", "dense_h_to_4h"),
    "up_proj": ("gate_up_proj", "mlp.c_fc", "dense_h_to_4h"),
    "down_proj": ("mlp.c_proj", "dense_4h_to_h"),
}
"""What Phi-3, GLM, GPT-2, StarCoder2 and GPT-NeoX call the module that does each target's work."""


def lora_weights(architecture: Architecture, targets: tuple[str, ...]) -> tuple[Weight, ...]:
    """The linear weights that get an adapter; a fused module gets one.

    ``targets`` holds names of :data:`TARGETS`, names of the family's own modules, or
    ``all-linear``, which is every linear layer but the head. As in peft, a name picks
    every module whose path ends in it (``c_proj`` is two modules of a GPT-2 layer).
    A model with experts takes adapters on its attention only.

    Raises:
        ValueError: naming ``lora_targets`` for a name that picks nothing, or that peft
            would turn into an adapter of experts.
    """
    if architecture.measured:
        raise ValueError(
            f"finetuning: {architecture.family} has no derived sum; the dry run's coefficients "
            "cover full fine-tuning with full or padded rows."
        )
    linears = [weight for weight in layer_weights(architecture) if weight.kind == "linear"]
    if architecture.experts:
        linears = [weight for weight in linears if ".self_attn." in weight.name]
        _refuse_experts(architecture, targets, linears)
    if ALL_LINEAR in targets:
        return tuple(linears)
    chosen: set[str] = set()
    for target in targets:
        picked = {weight.name for weight in linears if _matches(weight, target)}
        if not picked:
            known = ", ".join(sorted({weight.module for weight in linears}))
            raise ValueError(
                f"lora_targets: {target!r} picks no layer of {architecture.family}; "
                f"use {ALL_LINEAR} or some of {known}."
            )
        chosen |= picked
    if not chosen:
        raise ValueError(f"lora_targets: name at least one module, or {ALL_LINEAR}.")
    return tuple(weight for weight in linears if weight.name in chosen)


def _refuse_experts(
    architecture: Architecture, targets: tuple[str, ...], linears: list[Weight]
) -> None:
    """Experts are no linear layers: peft 0.21.2 makes ``target_parameters`` of such names.

    Its wrapper adds the product of the adapters to a whole copy of the layer's experts in
    every forward, and doubles the rank of fused ones; what that keeps is not derived.
    """
    for target in targets:
        if not any(_matches(weight, target) for weight in linears):
            known = ",".join(weight.module for weight in linears)
            raise ValueError(
                f"lora_targets: {target!r} reaches past the attention of {architecture.family}, "
                f"where peft adapts whole tensors of experts, which is not derived; use {known}."
            )


def _matches(weight: Weight, target: str) -> bool:
    path = "." + weight.name.removesuffix(".weight")
    return any(path.endswith("." + name) for name in (target, *FUSED.get(target, ())))


def trainable_lora_parameters(
    architecture: Architecture, rank: Num, targets: tuple[str, ...]
) -> Num:
    """Parameters of all adapters: rank × (in + out) for each adapted layer."""
    widths = sum(
        weight.count * (weight.in_features + weight.out_features)
        for weight in lora_weights(architecture, targets)
    )
    return rank * widths


def lora_tensor_count(architecture: Architecture, targets: tuple[str, ...]) -> int:
    """Trainable tensors: two for each adapted layer."""
    return 2 * sum(weight.count for weight in lora_weights(architecture, targets))
