"""Rows of what stands beside the trainer: an engine's server below ``vllm.``, and variables.

Those of the server are ``vllm serve``'s and ``trl vllm-serve``'s flags; a trainer that starts no
server leaves them alone. vLLM's own defaults are not here: what a server does not say is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.launch.huggingface.resolved import Values
from planner.launch.huggingface.table import row
from planner.launch.huggingface.variables import ALLOCATOR, variable
from planner.values.setting import Setting

SOURCE = "vllm 0.31.0, engine/arg_utils.py (not read here), {}; trl 1.16.0, scripts/vllm_serve.py"


def _apart(values: Values) -> bool:
    return bool(values.get("use_vllm")) and values.get("vllm_mode") == "server"


def _gpus(value: int | None, values: Values) -> Mapping[str, Any]:
    if value is None or not _apart(values):
        return {}
    copies = int(values["vllm.data_parallel_size"])
    return {"rollout_tensor_parallel": int(value), "rollout_gpus": int(value) * copies}


def _said(field: str) -> Any:
    """A field of a server that says something."""
    return lambda value, values: (
        {} if value is None or not _apart(values) else {field: value}
    )


def _of_server(field: str) -> Any:
    """What ``engine.sh`` says of a field."""
    return lambda plan: getattr(plan, field) if plan.rollout == "vllm-separate" else None


def _longest(value: int | None, values: Values) -> Mapping[str, Any]:
    if value is None or not _apart(values) or values.get("max_prompt_length"):
        return {}
    return {"prompt_tokens": int(value) - int(values["max_completion_length"])}


def _row(name: str, default: object, *fields: str, **more: Any) -> Setting:
    return row(SOURCE.format(name), f"vllm.{name}", default, *fields, **more)


SERVED: tuple[Setting, ...] = (
    _row(
        *("tensor_parallel_size", None, "rollout_tensor_parallel", "rollout_gpus"),
        read=_gpus,
        unit="GPUs",
    ),
    _row("data_parallel_size", 1, "rollout_gpus", unit="engines"),
    *(
        _row(name, None, name, read=_said(name), write=_of_server(name))
        for name in (
            *("gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens"),
            *("kv_cache_dtype", "enforce_eager", "async_scheduling"),
        )
    ),
    _row(
        *("enable_expert_parallel", None, "rollout_expert_parallel"),
        read=_said("rollout_expert_parallel"),
    ),
    _row("max_model_len", None, "prompt_tokens", read=_longest, unit="tokens"),
    *ALLOCATOR,
    variable("REWARD_URL", "planner/launch/reward.py", "reward"),
)
