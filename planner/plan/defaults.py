"""What is usual for a method, a framework, a model and a number of GPUs.

:func:`fill` completes the fields a person gave. Links never depend on it (they carry
every field, or a frozen preset and the differences), so these may improve.
What a framework makes usual stands in its folder of :mod:`planner.frameworks`, what it does so for
one method in the room of the pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import gcd
from typing import Any

from planner import catalog, registry
from planner.catalog.architecture import Architecture
from planner.numeric import round_up
from planner.plan.fields import MOST, PlanFields
from planner.plan.frameworks import OWN, frameworks
from planner.plan.methods import methods
from planner.plan.trainers import trainer_of
from planner.values.method import Method

NOT_KNOWN = Method(
    name="", title="", label="", order=0, roles=(), phases=(), defaults={"kl": "loss"}
)
"""In place of a method that is not known: the plan refuses that itself."""
MODEL = str(PlanFields.model_fields["model"].default)
"""Of a plan that names none."""
DEALT = ("gpus", "rollout_gpus", "responses_per_prompt")
"""What the usual number of prompts is a whole share for."""


def _method(values: Mapping[str, Any]) -> Method:
    return methods().get(str(values.get("method")), NOT_KNOWN)


def framework_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that the framework sets, unless a person has set them.

    ``{}`` for a framework that is not known: the plan refuses it itself.
    """
    framework = frameworks().get(str(values.get("framework", OWN)))
    if framework is None:
        return {}
    chosen = {"framework_version": framework.versions[0], **framework.defaults(values)}
    method = _method(values)
    if method.name:
        chosen |= trainer_of(framework.name, method.name).defaults(values)
    if not method.generates:
        for engine_field in ("gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens"):
            chosen.pop(engine_field, None)
    return chosen


def fill(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given fields, completed by what they make usual. Never overrides a given field."""
    values: dict[str, Any] = dict(given)
    values.setdefault("method", next(iter(methods())))
    if values.get("dtype", "bf16") == "fp32":
        values.setdefault("master_dtype", "none")
        values.setdefault("logits_dtype", "fp32")
    usual = dict(_method(values).defaults)
    if values.get("finetuning") in ("lora", "qlora"):
        # peft keeps adapters of a half-precision model in fp32 (autocast_adapter_dtype).
        usual["master_dtype"] = "fp32"
    usual |= framework_defaults(values)
    if varied := _method(values).variations.get(str(values.get("variation"))):
        usual |= varied.defaults
    usual |= model_defaults({**usual, **values}, MODEL)
    _fill_reference(values, {**usual, **values})
    for field, value in usual.items():
        values.setdefault(field, value)
    values.setdefault("reference", "copy")
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


def _fill_reference(values: dict[str, Any], usual: Mapping[str, Any]) -> None:
    """None where nothing compares with it, and of adapters their base; else what is usual."""
    method = _method(values)
    if not method.held_to_reference and usual.get(method.kl_field, "none") == "none":
        values.setdefault("reference", "none")
    if usual.get("finetuning", "full") in ("lora", "qlora"):
        values.setdefault("reference", "adapter-disabled")


def _fill_by_finetuning(values: dict[str, Any]) -> None:
    master = values.get("master_dtype", "fp32")
    values.setdefault("gradient_dtype", "fp32" if master == "fp32" else values.get("dtype", "bf16"))


def _fill_by_batch(values: dict[str, Any]) -> None:
    fields = PlanFields.model_fields
    gpus, apart, each = (values.get(name, fields[name].default) for name in DEALT)
    if all(isinstance(count, int) and count <= MOST for count in (gpus, apart, each)):
        # 64 prompts of eight responses are no whole share of 72 GPUs; 72 are.
        least = max(gpus - apart, 1) // gcd(max(gpus - apart, 1), each)
        values.setdefault("prompts_per_step", round_up(fields["prompts_per_step"].default, least))
    values.setdefault("prompts_per_update", values.get("prompts_per_step", 64))
    values.setdefault("logprob_micro_batch_size", values.get("micro_batch_size", 1))
    values.setdefault("validation_response_tokens", values.get("response_tokens", 2048))


def model_defaults(values: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Fields that the model sets, unless a person has set them.

    Transformers itself loads a model with eager attention where it refuses torch's; rows are then
    not packed, which only kernels of flash-attn keep apart for those models. ``model`` is the one
    of a plan that names none. ``{}`` for a model that is not known, which the plan refuses itself,
    or not measured yet.
    """
    arch = _architecture(str(values.get("model", model)), str(values.get("config", "")))
    if arch is None:
        return {}
    usual: dict[str, Any] = {}
    if registry.answer("refuses_sdpa")(arch):
        packed, flash = values.get("batch_shape") == "packed", not arch.measured
        usual["attention"] = "flash" if packed and flash else "eager"
        if not flash:
            usual["batch_shape"] = "padded"
    if values.get("finetuning", "full") != "full":
        modules = registry.answer("usual_targets")(arch)
        usual |= {"lora_targets": ",".join(modules)} if modules else {}
    return usual


def _architecture(model: str, config: str) -> Architecture | None:
    try:
        return _known(model, config)
    except (ValueError, LookupError):
        return None


@lru_cache(maxsize=256)
def _known(model: str, config: str) -> Architecture:
    """Raises where there is none, which is not remembered: it may be measured any time."""
    found = catalog.parse_config(catalog.decode_config(config)) if config else catalog.model(model)
    if found.architecture is None:
        raise LookupError(found.id)
    return found.architecture
