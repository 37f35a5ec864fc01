"""Sharding, dtypes, offload and optimizer of a trained model (``engine/fsdp.yaml``, ``optim``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.frameworks.verl.settings.rows import (
    ACTOR,
    Added,
    Said,
    carries,
    joint,
    one_of,
    shown,
    truth,
    whole,
)
from planner.plan import Plan
from planner.values.setting import Setting
from planner.values.sharding import SHARDINGS

STRATEGY = {"fsdp1": "fsdp", "fsdp2": "fsdp2"}
_SHARDINGS = {theirs: ours for ours, theirs in STRATEGY.items()}

DTYPES: dict[str | int, str] = {
    **{name: "bf16" for name in ("bf16", "bfloat16")},
    **{name: "fp16" for name in ("fp16", "float16", "16", 16)},
    **{name: "fp32" for name in ("fp32", "float32", "32", 32)},
}
"""``utils/torch_dtypes.py``, PrecisionType."""

_OPTIMIZERS = {
    "adamw-fused": ("torch.optim", "AdamW", {"fused": True}),
    "adamw-foreach": ("torch.optim", "AdamW", {"foreach": True}),
    "adamw-8bit": ("torchao.optim", "AdamW8bit", None),
    "sgd": ("torch.optim", "SGD", None),
}
EIGHT_BIT = ("torchao.optim", "bitsandbytes.optim")
_PLANNED = {"fused", "foreach", "betas", "eps", "lr", "weight_decay", "bf16_stochastic_round"}
"""Of an optimizer's own options those that change nothing but its implementation."""

FSDP = f"{ACTOR}.fsdp_config"
OPTIM = f"{ACTOR}.optim"


def dtype_of(value: Any) -> str:
    """A dtype as the plan has it.

    Raises:
        ValueError: it has none of that name.
    """
    return str(one_of(DTYPES, value, "The dtype"))


def kept(plan: Plan) -> str:
    """What weights are kept in; verl keeps a reference as its actor."""
    return str(plan.dtype if plan.master_dtype == "none" else plan.master_dtype)


def _of_fsdp(
    read: Callable[[Said], Mapping[str, Any]],
) -> Callable[[Said], Mapping[str, Any]]:
    """Nothing where another engine trains, which has settings of its own."""
    return lambda said: read(said) if said["model_engine"] == "dp" else {}


@_of_fsdp
def _kept(said: Said) -> Mapping[str, Any]:
    """Weights in fp32 below half-precision compute are their own master; so are gradients."""
    stored = dtype_of(said[f"{FSDP}.model_dtype"])
    computed = dtype_of(said[f"{FSDP}.mixed_precision.param_dtype"])
    if stored not in (computed, "fp32"):
        raise ValueError(f"Weights in {stored} below compute in {computed} are not planned.")
    master = "none" if stored == computed else "fp32"
    return {"dtype": computed, "master_dtype": master, "gradient_dtype": stored}


@_of_fsdp
def _offload(said: Said) -> Mapping[str, Any]:
    """FSDP2's policy keeps everything in host RAM; else each part waits there between uses."""
    strategy = said[f"{ACTOR}.strategy"]
    if truth(said[f"{FSDP}.offload_policy"]) and SHARDINGS[_SHARDINGS[strategy]].fsdp == 2:
        return {"offload": "all"}
    parameters = truth(said[f"{FSDP}.param_offload"])
    optimizer = truth(said[f"{FSDP}.optimizer_offload"])
    if parameters and optimizer:
        return {"offload": "all-between-phases"}
    if parameters or optimizer:
        return {"offload": f"{'parameters' if parameters else 'optimizer'}-between-phases"}
    return {"offload": "none"}


def _between(plan: Plan) -> str:
    """What waits in host RAM between phases alone."""
    return plan.offload.removesuffix("-between-phases") if plan.offload != "all" else ""


@_of_fsdp
def _optimizer(said: Said) -> Mapping[str, Any]:
    """Torch's own choice, of a loop over DTensors or flat parameters, holds what fused does."""
    module, name = said[f"{OPTIM}.optimizer_impl"], said[f"{OPTIM}.optimizer"]
    told = said[f"{OPTIM}.override_optimizer_config"] or {}
    if isinstance(told, dict) and not told.keys() - _PLANNED:
        if name == "AdamW8bit" and module in EIGHT_BIT:
            return {"optimizer": "adamw-8bit"}
        if module == "torch.optim" and name == "SGD":
            return {"optimizer": "sgd"}
        if module == "torch.optim" and name == "AdamW":
            return {"optimizer": "adamw-foreach" if told.get("foreach") is True else "adamw-fused"}
    with_them = f" with {shown(told)}" if told else ""
    raise ValueError(f"The optimizer {shown(module)}.{shown(name)}{with_them} is not planned.")


def _options(said: Said) -> Mapping[str, Any]:
    told = said[f"{OPTIM}.override_optimizer_config"]
    if said["model_engine"] != "dp" and told:
        raise ValueError(f"Another engine's optimizer with {shown(told)} is not planned.")
    return _optimizer(said)


def looped(said: Said) -> bool:
    """Whether torch steps AdamW tensor by tensor, for want of a word about it."""
    told = said[f"{OPTIM}.override_optimizer_config"]
    chosen = isinstance(told, dict) and (told.get("fused") or told.get("foreach"))
    return said["model_engine"] == "dp" and said[f"{OPTIM}.optimizer"] == "AdamW" and not chosen


def _override(plan: Plan) -> str | None:
    chosen = _OPTIMIZERS[plan.optimizer][2]
    return f"{{{next(iter(chosen))}:true}}" if chosen else None


@_of_fsdp
def _sharding(said: Said) -> Mapping[str, Any]:
    return {"sharding": one_of(_SHARDINGS, said[f"{ACTOR}.strategy"], "Training by")}


SHARDING = joint(
    ("sharding",), f"{ACTOR}.strategy", "fsdp", "actor/dp_actor.yaml:26",
    lambda plan: STRATEGY[plan.sharding], _sharding,
)  # fmt: skip


def _size(value: Any, said: Said) -> Mapping[str, Any]:
    """All GPUs where it is negative or more than there are (``workers/engine/fsdp/utils.py``)."""
    if said["model_engine"] != "dp":
        return {}
    size = whole(value)
    gpus = whole(said["trainer.nnodes"]) * whole(said["trainer.n_gpus_per_node"])
    if size == 0:
        raise ValueError("verl divides by fsdp_size: 0 stops it. Set -1 for all GPUs.")
    return {"shard_size": size if 0 < size <= gpus else 0}


SIZE = Setting(
    name=f"{FSDP}.fsdp_size", default=-1, moves="both", source="engine/fsdp.yaml:26", unit="GPUs",
    fields=("shard_size",), write=lambda plan: plan.shard_size or -1, read=_size,
)  # fmt: skip
RESHARDING = carries(
    "reshard_after_forward", f"{FSDP}.reshard_after_forward", True, "engine/fsdp.yaml:23", truth
)
STORED = joint(
    ("master_dtype", "gradient_dtype"), f"{FSDP}.model_dtype", "fp32", "engine/fsdp.yaml:33",
    kept, _kept,
)  # fmt: skip
COMPUTED = joint(
    ("dtype",), f"{FSDP}.mixed_precision.param_dtype", "bf16",
    "workers/engine/fsdp/transformer_impl.py:393", lambda plan: plan.dtype, _kept, kind=Added,
)  # fmt: skip
_OFFLOAD = ("offload",)
_OPTIMIZER = ("optimizer",)

SHARDED: tuple[Setting, ...] = (
    SIZE,
    RESHARDING,
    STORED,
    COMPUTED,
    Added(
        name=f"{FSDP}.mixed_precision.reduce_dtype", default="fp32", moves="both",
        source="workers/engine/fsdp/transformer_impl.py:394", fields=("reduce_dtype",),
        write=lambda plan: plan.reduce_dtype,
        read=lambda value, said: {"reduce_dtype": dtype_of(value)},
    ),
    joint(
        ("dtype",), f"{FSDP}.mixed_precision.buffer_dtype", "fp32",
        "workers/engine/fsdp/transformer_impl.py:395", lambda plan: "fp32", kind=Added,
    ),
    joint(
        _OFFLOAD, f"{FSDP}.offload_policy", False, "engine/fsdp.yaml:19",
        lambda plan: plan.offload == "all", _offload,
    ),
    joint(
        _OFFLOAD, f"{FSDP}.param_offload", False, "engine/fsdp.yaml:12",
        lambda plan: _between(plan) in ("parameters", "all"), _offload,
    ),
    joint(
        _OFFLOAD, f"{FSDP}.optimizer_offload", False, "engine/fsdp.yaml:16",
        lambda plan: _between(plan) in ("optimizer", "all"), _offload,
    ),
)  # fmt: skip

OPTIMIZED: tuple[Setting, ...] = (
    joint(
        _OPTIMIZER, f"{OPTIM}.optimizer_impl", "torch.optim", "optim/fsdp.yaml:9",
        lambda plan: _OPTIMIZERS[plan.optimizer][0], _optimizer,
    ),
    joint(
        _OPTIMIZER, f"{OPTIM}.optimizer", "AdamW", "optim/fsdp.yaml:5",
        lambda plan: _OPTIMIZERS[plan.optimizer][1], _optimizer,
    ),
    joint(
        _OPTIMIZER, f"{OPTIM}.override_optimizer_config", None, "optim/fsdp.yaml:53", _override,
        _options,
    ),
)  # fmt: skip
