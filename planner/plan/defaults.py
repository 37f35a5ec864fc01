"""What is usual for a method, a framework and a number of GPUs.

:func:`fill` completes the fields a person gave. Links never depend on it (they carry
every field, or a frozen preset and the differences), so these may improve.
What a framework makes usual stands in its folder of :mod:`planner.frameworks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.frameworks import OWN, frameworks

ALIASES: Mapping[str, str] = {
    "rloo": "grpo",
    "reinforce++": "grpo",
    "reinforce-plus-plus": "grpo",
    "dapo": "grpo",
    "gspo": "grpo",
    "dr-grpo": "grpo",
}
"""Methods whose memory is GRPO's; accepted as names and kept as ``grpo``."""

METHODS: Mapping[str, Mapping[str, Any]] = {
    "sft": {
        "kl": "none",
        "reference": "none",
        "critic": "none",
        "rollout": "none",
        "responses_per_prompt": 1,
        "reward": "rule",
        "logits": "full",
    },
    "dpo": {
        "kl": "none",
        "critic": "none",
        "rollout": "none",
        "responses_per_prompt": 1,
    },
    "grpo": {"kl": "loss", "critic": "none", "responses_per_prompt": 8},
    "intuitor": {"kl": "loss", "critic": "none", "responses_per_prompt": 8},
    "ppo": {"kl": "reward", "critic": "separate", "responses_per_prompt": 1},
    # Its code trains in half precision without a master copy (documents 001 and 002).
    "grade": {
        "kl": "none",
        "critic": "none",
        "rollout": "in-graph",
        "reward": "model",
        "responses_per_prompt": 1,
        "master_dtype": "none",
    },
}


def framework_defaults(values: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Fields that the framework sets, unless a person has set them.

    ``{}`` for a framework that is not known: the plan refuses it itself.
    """
    framework = frameworks().get(str(values.get("framework", OWN)))
    if framework is None:
        return {}
    chosen = {"framework_version": framework.versions[0], **framework.defaults(values)}
    if method in ("sft", "dpo"):
        for engine_field in ("gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens"):
            chosen.pop(engine_field, None)
    return chosen


def fill(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given fields, completed by what they make usual. Never overrides a given field."""
    values: dict[str, Any] = dict(given)
    method = str(values.get("method", "grpo"))
    if values.get("dtype", "bf16") == "fp32":
        values.setdefault("master_dtype", "none")
        values.setdefault("logits_dtype", "fp32")
    usual = dict(METHODS.get(method, {}))
    if values.get("finetuning") in ("lora", "qlora"):
        # peft keeps adapters of a half-precision model in fp32 (autocast_adapter_dtype).
        usual["master_dtype"] = "fp32"
    usual |= framework_defaults(values, method)
    for field, value in usual.items():
        values.setdefault(field, value)
    _fill_by_parallelism(values)
    _fill_by_finetuning(values)
    _fill_by_batch(values)
    if values.get("rollout", "vllm-colocated") == "vllm-colocated":
        values.setdefault("empty_cache", "between-phases")
    return values


def _fill_by_parallelism(values: dict[str, Any]) -> None:
    gpus = values.get("gpus", 8)
    separate = values.get("rollout") == "vllm-separate"
    if isinstance(gpus, int) and separate:
        values.setdefault("rollout_gpus", max(1, gpus // 2))
    taken = values.get("rollout_gpus", 0) if separate else 0
    if isinstance(gpus, int) and isinstance(taken, int):
        whole = values.get("method") == "grade" or values.get("finetuning") == "qlora"
        many = "ddp" if whole else "fsdp2"
        values.setdefault("sharding", "none" if gpus - taken <= 1 else many)


def _fill_by_finetuning(values: dict[str, Any]) -> None:
    adapters = values.get("finetuning", "full") in ("lora", "qlora")
    master = values.get("master_dtype", "fp32")
    values.setdefault("gradient_dtype", "fp32" if master == "fp32" else values.get("dtype", "bf16"))
    compares = values.get("method") == "dpo" or values.get("grade_kl", "none") != "none"
    if values.get("kl", "loss") == "none" and not compares:
        values.setdefault("reference", "none")
    framework = frameworks().get(str(values.get("framework", OWN)))
    whole = framework.whole_reference if framework else "copy"
    values.setdefault("reference", "adapter-disabled" if adapters else whole)


def _fill_by_batch(values: dict[str, Any]) -> None:
    values.setdefault("prompts_per_update", values.get("prompts_per_step", 64))
    values.setdefault("logprob_micro_batch_size", values.get("micro_batch_size", 1))
    values.setdefault("validation_response_tokens", values.get("response_tokens", 2048))
