"""DeepSpeed's JSON below ``deepspeed.``: its stage, its dtypes, its offload.

``auto`` stands for what transformers puts there of its own settings
(``integrations/deepspeed.py``, ``trainer_config_process``). Names and defaults of DeepSpeed 0.19.8,
whose source distribution was read (2026-11-29): ``accuracy/deepspeed_settings.py`` reads it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planner.launch.huggingface.resolved import (
    Values,
    sequences,
    sharded_by_deepspeed,
    way,
)
from planner.launch.huggingface.table import beyond, nested, row, written
from planner.launch.launch import LaunchFile
from planner.plan import Plan
from planner.values.setting import Setting, refusing
from planner.values.sharding import sharding_of

DEEPSPEED = "deepspeed.json"
PREFIX = "deepspeed."
CONFIG = "deepspeed 0.19.8, runtime/config.py, line {}"
ZERO = "deepspeed 0.19.8, runtime/zero/config.py, line {}"
OFFLOAD = "deepspeed 0.19.8, runtime/zero/offload_config.py, line {}"
DTYPE = "deepspeed 0.19.8, runtime/precision_config.py, line {}"


def deepspeed_file(plan: Plan) -> LaunchFile:
    """The configuration of a plan that DeepSpeed shards."""
    text = json.dumps(nested(written(ROWS, plan), PREFIX), indent=2) + "\n"
    return LaunchFile(name=DEEPSPEED, text=text)


def _optimizer(plan: Plan) -> bool:
    return plan.offload in ("optimizer", "all")


def _auto(name: str, line: int, *fields: str) -> Setting:
    """What transformers fills in; a value in the file has to be transformers' own."""
    return _row(CONFIG, line, name, "auto", *fields, write=lambda plan: "auto", read=_same(name))


def _same(name: str) -> Any:
    def read(value: object, values: Values) -> Mapping[str, Any]:
        accumulated = int(values["gradient_accumulation_steps"])
        theirs = {
            "train_batch_size": sequences(values, accumulated),
            "train_micro_batch_size_per_gpu": int(values["per_device_train_batch_size"]),
            "gradient_accumulation_steps": accumulated,
        }
        if sharded_by_deepspeed(values) and value not in ("auto", theirs.get(name), None):
            raise ValueError(f"transformers stops: its own {name} is {theirs[name]}.")
        return {}

    return read


def _offloaded(device: object, values: Values, more: object) -> Mapping[str, Any]:
    if not sharded_by_deepspeed(values):
        return {}
    both = {str(one or "none").lower() for one in (device, more)}
    if "nvme" in both:
        raise ValueError("A plan offloads to host RAM, not to a disk; set offload by hand.")
    optimizer, weights = (
        str(values[f"deepspeed.zero_optimization.offload_{part}.device"] or "none") == "cpu"
        for part in ("optimizer", "param")
    )
    found = {(0, 0): "none", (1, 0): "optimizer", (0, 1): "parameters", (1, 1): "all"}
    return {"offload": found[optimizer, weights]}


def _row(source: str, line: int, name: str, default: object, *fields: str, **more: Any) -> Setting:
    if write := more.get("write"):
        more["write"] = lambda plan: write(plan) if sharding_of(plan).zero else None
    return row(source.format(line), PREFIX + name, default, *fields, **more)


ROWS: tuple[Setting, ...] = (
    _auto("train_batch_size", 340, "prompts_per_update"),
    _auto("train_micro_batch_size_per_gpu", 344, "micro_batch_size"),
    _auto("gradient_accumulation_steps", 209, "prompts_per_update"),
    _row(CONFIG, 269, "gradient_clipping", "auto", write=lambda plan: "auto", moves="seconds"),
    _row(DTYPE, 46, "bf16.enabled", "auto", "dtype", write=lambda plan: plan.dtype == "bf16"),
    _row(DTYPE, 105, "fp16.enabled", "auto", "dtype", write=lambda plan: plan.dtype == "fp16"),
    _row(
        *(CONFIG, 219, "communication_data_type", None, "reduce_dtype"),
        write=lambda plan: plan.reduce_dtype,
    ),
    _row(
        *(CONFIG, 556, "data_types.grad_accum_dtype", None, "gradient_dtype"),
        write=lambda plan: plan.gradient_dtype,
    ),
    _row(
        *(CONFIG, 318, "zero_allow_untested_optimizer", False),
        moves="seconds",
        write=lambda plan: True,
    ),
    # Without its own optimizer DeepSpeed refuses to offload.
    _row(
        *(CONFIG, 289, "optimizer.type", None, "optimizer"),
        write=lambda plan: "AdamW" if _optimizer(plan) else None,
    ),
    *(
        _row(
            *(CONFIG, 296, f"optimizer.params.{name}", None),
            moves="seconds",
            write=lambda plan: "auto" if _optimizer(plan) else None,
        )
        for name in ("lr", "betas", "eps", "weight_decay")
    ),
    _row(
        *(ZERO, 95, "zero_optimization.stage", 0, "sharding"),
        write=lambda plan: sharding_of(plan).zero,
    ),
    _row(
        *(OFFLOAD, 58, "zero_optimization.offload_optimizer.device", "none", "offload"),
        write=lambda plan: "cpu" if _optimizer(plan) else None,
        read=lambda value, values: _offloaded(
            value, values, values["deepspeed.zero_optimization.offload_param.device"]
        ),
    ),
    _row(
        *(OFFLOAD, 75, "zero_optimization.offload_optimizer.pin_memory", True),
        moves="seconds",
        write=lambda plan: _optimizer(plan) or None,
        otherwise="Copies from host RAM that is not pinned are slower.",
    ),
    _row(
        *(OFFLOAD, 24, "zero_optimization.offload_param.device", "none", "offload"),
        write=lambda plan: "cpu" if plan.offload == "all" else None,
    ),
    _row(
        *(OFFLOAD, 45, "zero_optimization.offload_param.pin_memory", True),
        moves="seconds",
        write=lambda plan: plan.offload == "all" or None,
        otherwise="Copies from host RAM that is not pinned are slower.",
    ),
    _row(
        *(ZERO, 257, "zero_optimization.stage3_gather_16bit_weights_on_model_save", False),
        *("save_steps",),
        moves="memory",
        write=lambda plan: sharding_of(plan).zero == 3 or None,
        read=refusing(
            "Less while it saves: no rank has the whole model.",
            lambda value, values: way(values).zero == 3 and not value,
        ),
    ),
    *beyond("deepspeed 0.19.8", "deepspeed", PREFIX),
)
