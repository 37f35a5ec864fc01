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
from planner.launch.huggingface.table import nested, row, written
from planner.launch.launch import LaunchFile
from planner.plan import Plan
from planner.values.setting import Setting
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
    """What transformers fills in, and holds against its own where somebody else did."""
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


def _saved(value: bool, values: Values) -> Mapping[str, Any]:
    if way(values).zero == 3 and not value:
        raise ValueError("Less while it saves: no rank has the whole model.")
    return {}


def _of_optimizer(value: object, values: Values) -> Mapping[str, Any]:
    return _offloaded(value, values, values["deepspeed.zero_optimization.offload_param.device"])


def _row(source: str, line: int, name: str, default: object, *fields: str, **more: Any) -> Setting:
    return row(source.format(line), PREFIX + name, default, *fields, **more)


def _other(source: str, line: int, name: str, default: object, moves: Any, why: str) -> Setting:
    return _row(source, line, name, default, moves=moves, otherwise=why)


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
        read=_of_optimizer,
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
        read=_saved,
    ),
    _other(
        *("deepspeed 0.19.8, runtime/constants.py, line {}", 95, "bfloat16", None, "memory"),
        "An older word for bf16, which it is not read as.",
    ),
    *(
        _other(ZERO, line, f"zero_optimization.{name}", default, moves, why)
        for line, name, default, moves, why in (
            (102, "contiguous_gradients", True, "memory", "Less without a copy of gradients."),
            (108, "reduce_scatter", True, "seconds", "More: gradients are reduced whole."),
            (113, "reduce_bucket_size", 500_000_000, "memory", "A bucket of so many elements."),
            (132, "allgather_bucket_size", 500_000_000, "memory", "A bucket of so many elements."),
            (138, "overlap_comm", None, "both", "More: a second bucket; it waits less."),
            (182, "sub_group_size", 1_000_000_000, "memory", "Elements an optimizer step holds."),
            (222, "stage3_prefetch_bucket_size", 50_000_000, "memory", "Gathered in advance."),
            (
                *(228, "stage3_param_persistence_threshold", 100_000, "memory"),
                "Weights up to so many elements are on every GPU.",
            ),
            (245, "stage3_max_live_parameters", 1_000_000_000, "memory", "Gathered at once."),
            (251, "stage3_max_reuse_distance", 1_000_000_000, "memory", "Kept until reused."),
            (235, "stage3_model_persistence_threshold", None, "memory", "Weights never sharded."),
            (324, "zero_hpz_partition_size", 1, "memory", "More: a second shard in each node."),
            (328, "zero_quantized_weights", False, "seconds", "Fewer: weights travel in 8 bits."),
            (333, "zero_quantized_nontrainable_weights", False, "both", "Less: frozen in 8 bits."),
            (340, "zero_quantized_gradients", False, "seconds", "Fewer: gradients in 4 bits."),
            (309, "round_robin_gradients", False, "seconds", "Fewer where it offloads."),
            (303, "legacy_stage1", False, "memory", "Another code of stage 1."),
            (265, "stage3_module_granularity_threshold", 0, "memory", "Gathered as one."),
            (188, "cpu_offload_param", None, "memory", "Deprecated; use offload_param."),
            (209, "cpu_offload", None, "memory", "Deprecated; use offload_optimizer."),
            (126, "allgather_partitions", True, "seconds", "Weights travel by broadcasts."),
            (119, "use_multi_rank_bucket_allreduce", True, "seconds", "More: reduced in turn."),
            (317, "parameter_alignment", False, "memory", "More: weights are padded."),
            (346, "memory_efficient_linear", True, "memory", "More: linear layers keep weights."),
            (279, "stage3_allgather_sequential", False, "seconds", "Gathers follow each other."),
            (273, "stage3_use_all_reduce_for_fetch_params", False, "seconds", "Another gather."),
            (370, "save_muon_momentum_buffer_in_memory", False, "memory", "More: of Muon."),
            (377, "leaf_module", None, "memory", "More: modules are gathered as one."),
            (179, "zenflow", None, "both", "Another optimizer step, partly on the CPU."),
        )
    ),
    *(
        _other(OFFLOAD, line, f"zero_optimization.{name}", default, "memory", why)
        for line, name, default, why in (
            (30, "offload_param.nvme_path", None, "Host RAM: weights go to a disk."),
            (33, "offload_param.buffer_count", 5, "Host RAM: buffers of a disk."),
            (36, "offload_param.buffer_size", 100_000_000, "Host RAM: buffers of a disk."),
            (39, "offload_param.max_in_cpu", 1_000_000_000, "Host RAM beside a disk."),
            (64, "offload_optimizer.nvme_path", None, "Host RAM: states go to a disk."),
            (67, "offload_optimizer.buffer_count", 4, "Host RAM: buffers of a disk."),
            (99, "offload_optimizer.ratio", 1.0, "More: a part of the states stays on the GPU."),
            (84, "offload_optimizer.pipeline_read", False, "Seconds: of a disk."),
            (90, "offload_optimizer.pipeline_write", False, "Seconds: of a disk."),
            (96, "offload_optimizer.fast_init", False, "Seconds: of a disk, at the start."),
            (105, "offload_optimizer.cpuadam_cores_perc", 0.8, "Seconds: cores of an update."),
            (102, "offload_optimizer.super_offload", False, "Another optimizer step."),
        )
    ),
    *(
        _other(DTYPE, line, name, default, "memory", why)
        for line, name, default, why in (
            (51, "bf16.immediate_grad_update", False, "Less: no gradients wait for the step."),
            (63, "bf16.bf16_master_weights_and_grads", False, "Less: no fp32 master."),
            (68, "bf16.bf16_optimizer_states", False, "Less: moments in bf16."),
            (110, "fp16.auto_cast", False, "More: inputs are cast."),
            (160, "fp16.fp16_master_weights_and_grads", False, "Less: no fp32 master."),
        )
    ),
    *(
        _other(CONFIG, line, name, default, moves, why)
        for line, name, default, moves, why in (
            (559, "data_types.param_dtype", None, "memory", "Weights in another dtype."),
            (561, "data_types.buffer_dtype", None, "memory", "Buffers in another dtype."),
            (563, "data_types.keep_in_fp32_modules", "auto", "memory", "More: modules in fp32."),
            (234, "prescale_gradients", False, "seconds", "Gradients are divided first."),
            (503, "activation_checkpointing", None, "memory", "DeepSpeed's own, if a model asks."),
            (322, "zero_force_ds_cpu_optimizer", True, "seconds", "torch's AdamW is slower there."),
            (180, "torch_autocast", None, "both", "Autocast in place of half-precision weights."),
            (584, "compile", None, "both", "DeepSpeed's compiler."),
            (587, "tensor_parallel", None, "both", "Less: layers are split over GPUs."),
            (588, "expert_parallel", None, "both", "Less: experts are split over GPUs."),
            (582, "weight_quantization", None, "both", "Less: weights in 8 bits."),
            (572, "aio", None, "seconds", "How a disk is read."),
            (370, "hybrid_engine", None, "both", "An engine of DeepSpeed's that generates."),
            (283, "pipeline", None, "both", "Less: layers are split into stages."),
            (542, "data_efficiency", None, "both", "Other lengths of rows while it trains."),
        )
    ),
)
