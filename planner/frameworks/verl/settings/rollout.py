"""The engine's settings (``rollout/rollout.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.frameworks.verl.settings.algorithm import CORRECTION
from planner.frameworks.verl.settings.batches import LOGPROB_ROWS
from planner.frameworks.verl.settings.engine import COMPUTED, dtype_of
from planner.frameworks.verl.settings.roles import adapts, apart, separates
from planner.frameworks.verl.settings.rows import (
    ROLLOUT,
    Added,
    Said,
    carries,
    joint,
    one_of,
    real,
    shown,
    truth,
    whole,
)
from planner.plan import Plan
from planner.units import MIB
from planner.values.dtypes import TORCH_NAMES
from planner.values.setting import Setting, refusing

_BUCKET = 2048
"""MiB."""
NODE = 8
"""GPUs of a usual node."""
_SERVER = "workers/rollout/vllm_rollout/vllm_async_server.py:287"
_ENGINES = {"vllm": "vLLM"}
_CACHES = {"auto": "auto", **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2"), "fp8")}
FREES = f"{ROLLOUT}.free_cache_engine"


def _name(value: Any, said: Said) -> Mapping[str, Any]:
    if value == "???":
        raise ValueError("verl asks for it: set vllm.")
    one_of(_ENGINES, value, "The engine")
    if not separates(said):
        return {"rollout": "vllm-colocated", "rollout_overlap": "synchronous"}
    return {"rollout": "vllm-separate", "rollout_overlap": "one-step-off"}


def _dtype(value: Any, said: Said) -> Mapping[str, Any]:
    computed = dtype_of(said[COMPUTED.name])
    if dtype_of(value) != computed:
        raise ValueError(f"A plan has one dtype for engine and trainer, which is {computed}.")
    return {}


def _longest(value: Any, said: Said) -> Mapping[str, Any]:
    planned = whole(said["data.max_prompt_length"]) + whole(said["data.max_response_length"])
    if value is not None and whole(value) != planned:
        raise ValueError(
            f"A plan's engine takes rows of prompt and response, {planned} tokens; one that takes "
            "longer rows keeps more positions and plans more KV cache for one of them."
        )
    return {}


def _experts(value: Any, said: Said) -> Mapping[str, Any]:
    split, engine = whole(value), said[f"{ROLLOUT}.tensor_model_parallel_size"]
    if split not in (1, engine):
        raise ValueError(
            f"Experts are planned over all of an engine's GPUs or none, and it has {shown(engine)}."
        )
    return {"rollout_expert_parallel": split > 1}


def _sleep(value: Any, said: Said) -> Mapping[str, Any]:
    if separates(said):
        return {}
    if not truth(value):
        # vllm_async_server.py, sleep and wake_up; engine_workers.py, update_weights: nothing then
        # gives memory back, and weights are sent to an engine that is awake.
        return {"vllm_sleep_level": 0}
    return {"vllm_sleep_level": 1 if adapts(said) else 2}


def _of_engine(field: str, key: str, default: Any, line: int, kind: Any = whole) -> Setting:
    return carries(field, f"{ROLLOUT}.{key}", default, f"rollout/rollout.yaml:{line}", kind)


ENGINE = (
    Setting(
        name=f"{ROLLOUT}.name", default="???", source="rollout/rollout.yaml:5",
        fields=("rollout", "rollout_overlap"), write=lambda plan: "vllm", read=_name,
    ),
    Setting(
        name=f"{ROLLOUT}.dtype", default="bfloat16",
        source="rollout/rollout.yaml:43", fields=("dtype",),
        write=lambda plan: TORCH_NAMES[plan.dtype], read=_dtype,
    ),
    _of_engine("responses_per_prompt", "n", 1, 127),
    _of_engine("temperature", "temperature", 1.0, 17, real),
    _of_engine("rollout_tensor_parallel", "tensor_model_parallel_size", 2, 64),
    Setting(
        name=f"{ROLLOUT}.expert_parallel_size", default=1,
        source="rollout/rollout.yaml:72", fields=("rollout_expert_parallel",),
        write=lambda plan: plan.rollout_tensor_parallel if plan.rollout_expert_parallel else None,
        read=_experts,
    ),
    _of_engine("gpu_memory_utilization", "gpu_memory_utilization", 0.5, 46, real),
    Setting(
        name=f"{ROLLOUT}.max_model_len", default=None, moves="memory",
        source="rollout/rollout.yaml:81", fields=("prompt_tokens", "response_tokens"),
        unit="tokens", write=lambda plan: plan.prompt_tokens + plan.response_tokens, read=_longest,
    ),
    _of_engine("max_num_seqs", "max_num_seqs", 256, 84),
    _of_engine("max_num_batched_tokens", "max_num_batched_tokens", 8192, 78),
    _of_engine("enforce_eager", "enforce_eager", False, 52, truth),
    Setting(
        name=FREES, default=True, moves="memory",
        source="rollout/rollout.yaml:61", fields=("vllm_sleep_level",),
        write=lambda plan: not apart(plan) and plan.vllm_sleep_level > 0, read=_sleep,
    ),
    Added(
        name=f"{ROLLOUT}.enable_sleep_mode", default=True, moves="memory",
        source="workers/config/rollout.py:268", fields=("vllm_sleep_level",),
        # vLLM's own leave to sleep: of an engine that is never asked to, nothing that counts.
        read=refusing(
            "The engine cannot sleep then, and free_cache_engine has it do so: set that to False, "
            "too, for an engine that keeps its weights and KV cache while the trainer works.",
            lambda value, said: not truth(value) and truth(said[FREES]) and not separates(said),
        ),
    ),
    LOGPROB_ROWS,
    carries(
        "rollout_quantization", f"{ROLLOUT}.quantization", None, "rollout/rollout.yaml:473",
        lambda value: (
            "none" if value is None else one_of({"fp8": "fp8"}, value, "Quantization to")
        ),
        write=lambda plan: (
            None if plan.rollout_quantization == "none" else plan.rollout_quantization
        ),
    ),
    Setting(
        name=f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes", default=_BUCKET,
        source="rollout/rollout.yaml:296", unit="MiB", fields=("sync_bucket_bytes",),
        write=lambda plan: plan.sync_bucket_bytes // MIB or None,         read=lambda value, said: {
            "sync_bucket_bytes": 0 if whole(value) == _BUCKET else whole(value) * MIB
        },
    ),
    Added(
        name=f"{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype", default="auto",
        source=_SERVER, fields=("kv_cache_dtype",),
        write=lambda plan: None if plan.kv_cache_dtype == "auto" else plan.kv_cache_dtype,
        read=lambda value, said: {"kv_cache_dtype": one_of(_CACHES, value, "A KV cache in")},
    ),
    Added(
        name=f"{ROLLOUT}.engine_kwargs.vllm.async_scheduling", default=True, moves="seconds",
        source=_SERVER, fields=("async_scheduling",),
        write=lambda plan: None if plan.async_scheduling else False,
        read=lambda value, said: {"async_scheduling": truth(value)},
    ),
    # Adapters are synced alone, so the engine has to read the base weights itself.
    joint(
        ("finetuning",), f"{ROLLOUT}.load_format", "dummy", "rollout/rollout.yaml:100",
        lambda plan: "safetensors" if plan.finetuning == "lora" else None,
    ),
)  # fmt: skip


def nodes(plan: Plan, gpus: int) -> int:
    """How many nodes so many GPUs are: at least one."""
    return max(1, int(gpus) // int(plan.gpus_per_node))


def _gpus(said: Said) -> Mapping[str, Any]:
    """GPUs in all and of the engine; those of a node where several nodes are used, or a usual one.

    No script says whether only part of a node is used, or whether trainer and engine share one.
    """
    sides = ["trainer", *(["rollout"] if separates(said) else [])]
    counts = [whole(said[f"{side}.nnodes"]) for side in sides]
    each = [whole(said[f"{side}.n_gpus_per_node"]) for side in sides]
    used = [count * size for count, size in zip(counts, each, strict=True)]
    whole_nodes = max(counts) > 1 or (len(sides) == 1 and max(each) >= NODE)
    return {
        "gpus": sum(used),
        "rollout_gpus": sum(used[1:]),
        **({"gpus_per_node": max(each)} if whole_nodes else {}),
    }


def _pool(side: str, source: tuple[str, int, int], used: Any) -> tuple[Setting, ...]:
    """Rows of one side's GPUs: some of one node, or whole nodes."""
    fields, (file, count, size) = ("gpus", "rollout_gpus", "gpus_per_node"), source

    def counted(plan: Plan) -> int | None:
        gpus = used(plan)
        return nodes(plan, gpus) if gpus else None

    def sized(plan: Plan) -> int | None:
        return min(used(plan), plan.gpus_per_node) or None

    return (
        joint(fields, f"{side}.nnodes", 1, f"{file}:{count}", counted, _gpus),
        joint(fields, f"{side}.n_gpus_per_node", 8, f"{file}:{size}", sized, _gpus),
    )


_ONE_STEP = "experimental/one_step_off_policy/config/one_step_off_ppo_trainer.yaml"

POOL = _pool("trainer", ("ppo_trainer.yaml", 168, 171), lambda plan: plan.gpus - plan.rollout_gpus)

APART = (
    joint(
        # Its own is a path below the folder that a program is started in.
        ("rollout",), "hydra.searchpath", [], _ONE_STEP + ":2",
        lambda plan: "[pkg://verl.trainer.config]" if apart(plan) else None,
    ),
    joint(
        ("rollout",), "actor_rollout_ref.hybrid_engine", True, "ppo_trainer.yaml:60",
        lambda plan: False if apart(plan) else None,
    ),
    CORRECTION,
    *_pool("rollout", (_ONE_STEP, 12, 14), lambda plan: plan.rollout_gpus if apart(plan) else 0),
)  # fmt: skip

ONE_STEP_OFF = {
    FREES: False,
    f"{ROLLOUT}.checkpoint_engine.backend": "nccl",
    CORRECTION.name: True,
}
"""Defaults that the program for an engine apart has otherwise."""
