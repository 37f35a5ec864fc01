"""Dtypes: a plan's as the settings that make them, and the settings' as a plan's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.launch.huggingface.processes import zero
from planner.launch.huggingface.resolved import (
    DTYPES,
    Values,
    adapted,
    mixed,
    sharded_by_deepspeed,
    sharding,
)
from planner.plan import Plan
from planner.values.dtypes import TORCH_NAMES
from planner.values.sharding import SHARDINGS, sharding_of


def mixed_precision(plan: Plan) -> str:
    """Compute dtype when it is not that of the weights, else ``no``."""
    if plan.dtype == "fp32":
        return "no"
    if zero(plan) or plan.master_dtype == "fp32" or plan.finetuning == "qlora":
        return str(plan.dtype)
    return "no"


def loaded_dtype(plan: Plan) -> str:
    """Torch's name of the dtype that weights are loaded in.

    FSDP copies what it trains to fp32 by itself under mixed precision, DeepSpeed keeps
    fp32 copies beside half-precision weights, and peft makes its adapters fp32. Only
    plain and DDP training need the whole model in fp32 for an fp32 master.
    """
    replicated = sharding_of(plan).replicated
    if plan.finetuning == "lora" and plan.base_dtype == "fp32":
        return "float32"
    if plan.finetuning == "full" and replicated and plan.master_dtype == "fp32":
        return "float32"
    return TORCH_NAMES[plan.dtype]


def dtypes(value: object, values: Values) -> Mapping[str, Any]:
    """A plan's dtypes, from the weights' as loaded and from all settings.

    Raises:
        ValueError: dtypes that no plan has together.
    """
    loaded = DTYPES.get(str(value).removeprefix("torch."))
    if loaded is None:
        raise ValueError(f"dtype {value} is the checkpoint's own; set dtype by hand.")
    name, half = sharding(values), mixed(values)
    dtype = loaded if half == "no" else half
    if loaded not in ("fp32", dtype):
        raise ValueError(f"Weights in {loaded} under {half} autocast have no plan.")
    found = {"dtype": dtype, "base_dtype": "compute"}
    if values.get("load_in_4bit"):
        if loaded == "fp32" and dtype != "fp32":
            raise ValueError("Below 4-bit weights, those that are not 4-bit stay in fp32 here.")
        found["master_dtype"] = "none"
    elif adapted(values):
        found |= _of_adapters(loaded, half, sharded_by_deepspeed(values))
    else:
        kept = SHARDINGS[name].replicated and loaded != "fp32"
        found["master_dtype"] = "none" if half == "no" or kept else "fp32"
    found["gradient_dtype"] = "fp32" if found["master_dtype"] == "fp32" else dtype
    if SHARDINGS[name].zero:
        found["gradient_dtype"] = _said(values["deepspeed.data_types.grad_accum_dtype"], dtype)
    if not SHARDINGS[name].replicated:
        found["reduce_dtype"] = dtype
    if SHARDINGS[name].zero:
        found["reduce_dtype"] = _said(values["deepspeed.communication_data_type"], dtype)
    return found


def _of_adapters(loaded: str, half: str, deepspeed: bool) -> dict[str, str]:
    """Peft keeps adapters of half-precision weights in fp32, which only autocast brings together.

    DeepSpeed casts the whole module.
    """
    if half == "no" and loaded != "fp32":
        raise ValueError(f"Adapters in fp32 over weights in {loaded} have a plan under autocast.")
    if half == "no":
        return {"master_dtype": "none"}
    below = "fp32" if loaded == "fp32" and not deepspeed else "compute"
    return {"master_dtype": "fp32", "base_dtype": below}


def _said(value: object, otherwise: str) -> str:
    """DeepSpeed's own default is the compute dtype (runtime/engine.py of 0.19.8, line 1799)."""
    return otherwise if value in (None, "auto") else DTYPES[str(value).removeprefix("torch.")]
