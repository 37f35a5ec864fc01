"""What is usual for a method, a framework and a number of GPUs.

:func:`fill` completes the fields a person gave. Links never depend on it (they carry
every field, or a frozen preset and the differences), so these may improve.
Framework defaults are read from TRL 1.16.0, verl 0.9.1 and OpenRLHF 0.11.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.methods import methods
from planner.methods.method import Method

VERSIONS: Mapping[str, str] = {
    "plain": "1",
    "trl": "1.16.0",
    "verl": "0.9.1",
    "openrlhf": "0.11.2",
}
"""The version of each framework that a new plan gets."""

FRAMEWORKS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "trl": {
        "logits": "fused",
        "gpu_memory_utilization": 0.3,
        "master_dtype": "fp32",
        "reduce_dtype": "bf16",
        "max_num_batched_tokens": 4096,
    },
    "verl": {
        "batch_shape": "packed",
        "master_dtype": "fp32",
        "gpu_memory_utilization": 0.5,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "logits": "full",
        "logits_dtype": "bf16",
    },
    "openrlhf": {"gpu_memory_utilization": 0.95, "gradient_checkpointing": "none"},
}


NOT_KNOWN = Method(name="", title="", label="", order=0, defaults={"kl": "loss"})
"""In place of a method that is not known: the plan refuses that itself."""


def _method(values: Mapping[str, Any]) -> Method:
    return methods().get(str(values.get("method")), NOT_KNOWN)


def framework_defaults(framework: str, method: str) -> dict[str, Any]:
    """Fields that choosing this framework sets, unless a person has set them.

    ``{}`` for a framework or method that is not known: the plan refuses those itself.
    """
    chosen = dict(FRAMEWORKS.get(framework, {}))
    known = methods().get(method)
    if known and not known.generates:
        for engine_field in ("gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens"):
            chosen.pop(engine_field, None)
    return {"framework_version": VERSIONS.get(framework, ""), **chosen}


def fill(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given fields, completed by what they make usual. Never overrides a given field."""
    values: dict[str, Any] = dict(given)
    method = str(values.setdefault("method", next(iter(methods()))))
    framework = str(values.get("framework", "plain"))
    if values.get("dtype", "bf16") == "fp32":
        values.setdefault("master_dtype", "none")
        values.setdefault("logits_dtype", "fp32")
    elif values.get("finetuning") in ("lora", "qlora"):
        # peft keeps adapters of a half-precision model in fp32 (autocast_adapter_dtype);
        # verl casts them to the base model's dtype, and lets the engine sleep at level 1. TRL
        # does so with those of 4-bit weights.
        verl = framework == "verl"
        lowered = verl or (framework == "trl" and values["finetuning"] == "qlora")
        values.setdefault("master_dtype", "none" if lowered else "fp32")
        if verl:
            values.setdefault("vllm_sleep_level", 1)
    for source in (framework_defaults(framework, method), _method(values).defaults):
        for field, value in source.items():
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
        outside = _method(values).embeds_outside_forward
        whole = outside or values.get("finetuning") == "qlora"
        many = "ddp" if whole else "fsdp2"
        values.setdefault("sharding", "none" if gpus - taken <= 1 else many)


def _fill_by_finetuning(values: dict[str, Any]) -> None:
    adapters = values.get("finetuning", "full") in ("lora", "qlora")
    master = values.get("master_dtype", "fp32")
    values.setdefault("gradient_dtype", "fp32" if master == "fp32" else values.get("dtype", "bf16"))
    method = _method(values)
    if not method.held_to_reference and values.get(method.kl_field, "none") == "none":
        values.setdefault("reference", "none")
    # verl wraps a frozen reference in FSDP's CPU offload, whatever its settings say.
    whole = "offloaded" if values.get("framework") == "verl" else "copy"
    values.setdefault("reference", "adapter-disabled" if adapters else whole)


def _fill_by_batch(values: dict[str, Any]) -> None:
    values.setdefault("prompts_per_update", values.get("prompts_per_step", 64))
    values.setdefault("logprob_micro_batch_size", values.get("micro_batch_size", 1))
    values.setdefault("validation_response_tokens", values.get("response_tokens", 2048))
