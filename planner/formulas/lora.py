"""Which linear layers LoRA adapts, and how many parameters it adds.

A LoRA adapter of rank r on a layer of shape in × out has two matrices, r × in and
out × r (Hu et al. 2021, https://arxiv.org/abs/2106.09685); no biases are trained. Experts are
tensors of many such matrices, and an adapter of them has as many pairs (peft's
``target_parameters``). Counts equal those of peft 0.21.2.
"""

from __future__ import annotations

from planner.catalog.architecture import EXPERTS, Architecture
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

EXPERT_NAMES = ("gate_proj", "up_proj", *EXPERTS)
"""Names that peft turns into adapters of experts, wherever they stand in a mixture."""

MAMBA = ("falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h")
NOT_OF_MAMBA = ("out_proj", "conv1d")
"""What peft refuses in those (``_check_lora_target_modules_mamba``): kernels take the weight."""


def lora_weights(architecture: Architecture, targets: tuple[str, ...]) -> tuple[Weight, ...]:
    """The linear weights that get an adapter; a fused module gets one.

    ``targets`` holds names of :data:`TARGETS`, names of the family's own modules, or
    ``all-linear``, which is every linear layer but the head. As in peft, a name picks
    every module whose path ends in it (``c_proj`` is two modules of a GPT-2 layer).
    A model with experts takes adapters on its attention, and on experts where :data:`EXPERTS`
    are named.

    Raises:
        ValueError: naming ``lora_targets`` for a name that picks nothing, or that peft would turn
            into adapters of experts with ranks of their own.
    """
    found = layer_weights(architecture)
    linears = [weight for weight in found if weight.kind == "linear"]
    if architecture.experts:
        experts = [weight for weight in found if weight.kind == "experts"]
        outside = _outside_experts(found)
        _refuse_mixers(architecture, targets, outside)
        return _of_mixture(architecture, targets, outside, experts)
    _refuse_mixers(architecture, targets, linears)
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


def usual_targets(architecture: Architecture) -> tuple[str, ...]:
    """The modules that adapters are on where nobody names any; empty for all linear ones."""
    if architecture.experts:
        return attention_modules(architecture)
    if architecture.family not in MAMBA:
        return ()
    linears = [one for one in layer_weights(architecture) if one.kind == "linear"]
    return _adaptable(architecture, linears)


def attention_modules(architecture: Architecture) -> tuple[str, ...]:
    """What adapters of a mixture are on: linear layers beside the blocks that hold its experts.

    But for an attention's gate that is called as experts' are (AFMoE): peft takes it for one.
    """
    outside = _outside_experts(layer_weights(architecture))
    found = _adaptable(architecture, outside)
    return tuple(name for name in found if name not in EXPERT_NAMES)


def _adaptable(architecture: Architecture, linears: list[Weight]) -> tuple[str, ...]:
    refused = NOT_OF_MAMBA if architecture.family in MAMBA else ()
    return tuple(dict.fromkeys(one.module for one in linears if one.module not in refused))


def _refuse_mixers(
    architecture: Architecture, targets: tuple[str, ...], linears: list[Weight]
) -> None:
    """Raise for what peft does not adapt in models with Mamba's mixers."""
    if architecture.family in MAMBA and {ALL_LINEAR, *NOT_OF_MAMBA} & {*targets}:
        raise ValueError(
            f"lora_targets: adapters of {' and '.join(NOT_OF_MAMBA)} are refused by peft for "
            f"{architecture.family}; set lora_targets to some of "
            f"{','.join(_adaptable(architecture, linears))}"
        )


def _outside_experts(found: tuple[Weight, ...]) -> list[Weight]:
    """Linear layers beside the blocks of experts; by their names where every block is called so.

    Nemotron-H calls what a layer has its ``mixer``: attention, Mamba, experts or an MLP.
    """
    blocks = tuple({_block(weight) for weight in found if weight.kind == "experts"})
    linears = [one for one in found if one.kind == "linear"]
    outside = [one for one in linears if not one.name.startswith(blocks)]
    return outside or [one for one in linears if one.module not in EXPERT_NAMES]


def _block(weight: Weight) -> str:
    """The module of a layer that holds experts, shared ones and router: ``mlp``."""
    layer, _, path = weight.name.partition("{layer}.")
    return f"{layer}{{layer}}.{path.partition('.')[0]}."


def _of_mixture(
    architecture: Architecture,
    targets: tuple[str, ...],
    linears: list[Weight],
    experts: list[Weight],
) -> tuple[Weight, ...]:
    """Attention's layers and whole tensors of experts.

    Where gate and up are named apart, or ``all-linear``, peft 0.21.2 adapts the fused tensor with
    twice the rank, and the router in some families: refused, since a plan has one rank.
    """
    chosen: set[str] = set()
    for target in targets:
        picked = {weight.name for weight in (*linears, *experts) if weight.module == target}
        if not picked:
            known = ",".join(weight.module for weight in (*linears, *experts))
            raise ValueError(
                f"lora_targets: {target!r} reaches past the attention of {architecture.family}, "
                f"where peft adapts whole tensors of experts with other ranks; name what to adapt, "
                f"of {known}."
            )
        chosen |= picked
    if not chosen:
        raise ValueError("lora_targets: name at least one module.")
    return tuple(weight for weight in (*linears, *experts) if weight.name in chosen)


def adapted_names(chosen: tuple[Weight, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of modules in a layer, and of tensors of experts: peft is told them apart."""
    modules, tensors = (
        sorted(
            {
                weight.name.split("{layer}.")[-1].removesuffix(".weight")
                for weight in chosen
                if (weight.kind == "experts") == of_experts
            }
        )
        for of_experts in (False, True)
    )
    return tuple(modules), tuple(tensors)


def built_names(architecture: Architecture, targets: tuple[str, ...]) -> tuple[str, ...]:
    """The targets as the family's own modules are called, for a framework that asks peft itself."""
    weights = [weight for weight in layer_weights(architecture) if weight.kind == "linear"]
    found = (
        name
        for target in targets
        for name in (target, *FUSED.get(target, ()))
        if target == ALL_LINEAR or any(_ends(weight, name) for weight in weights)
    )
    return tuple(dict.fromkeys(found))


def _matches(weight: Weight, target: str) -> bool:
    return any(_ends(weight, name) for name in (target, *FUSED.get(target, ())))


def _ends(weight: Weight, name: str) -> bool:
    """As peft picks modules: by the end of their path."""
    return ("." + weight.name.removesuffix(".weight")).endswith("." + name)


def trainable_lora_parameters(
    architecture: Architecture, rank: Num, targets: tuple[str, ...]
) -> Num:
    """Parameters of all adapters: rank × (in + out) for each adapted layer, and each expert."""
    widths = sum(
        weight.count * weight.matrices * (weight.in_features + weight.out_features)
        for weight in lora_weights(architecture, targets)
    )
    return rank * widths


def lora_tensor_count(architecture: Architecture, targets: tuple[str, ...]) -> int:
    """Trainable tensors: two for each adapted layer."""
    return 2 * sum(weight.count for weight in lora_weights(architecture, targets))
