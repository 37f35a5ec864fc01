"""A model's settings (``model/hf_model.yaml``): the policy's, and the critic's beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.formulas.lora import ALL_LINEAR
from planner.frameworks.verl.settings.roles import adapts, criticises
from planner.frameworks.verl.settings.rows import (
    CRITIC,
    MODEL,
    Added,
    Said,
    carries,
    joint,
    one_of,
    same_as,
    shown,
    truth,
    whole,
)
from planner.launch.words import ATTENTION, lora_targets
from planner.plan import Plan
from planner.values.setting import Setting

KERNELS = {"chunked": "torch", "fused": "triton"}
"""Backend of verl's fused kernels, by the logits path."""
UNNAMED = "~/models/deepseek-llm-7b-chat"
"""The YAML's model where nobody names one."""

_NAMES = {theirs: ours for ours, theirs in ATTENTION.items()}
_PATHS = {theirs: ours for ours, theirs in KERNELS.items()}


def _named(value: Any) -> str:
    if value == UNNAMED or not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no model of the catalog.")
    return value


def _critic(value: Any, said: Said) -> Mapping[str, Any]:
    if not criticises(said):
        return {}
    return {"critic_model": "" if _named(value) == said[f"{MODEL}.path"] else value}


def _adapters(said: Said) -> Mapping[str, Any]:
    if not adapts(said):
        return {"finetuning": "full"}
    return {"finetuning": "lora", "lora_rank": whole(said[f"{MODEL}.lora_rank"])}


def _targets(said: Said) -> Mapping[str, Any]:
    if not adapts(said):
        return {}
    told = said[f"{MODEL}.target_modules"]
    names = [told] if told == ALL_LINEAR else told
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{shown(told)} is neither all-linear nor a list of modules.")
    return {"lora_targets": ",".join(names)}


def _written_targets(plan: Plan) -> str | None:
    if plan.finetuning != "lora":
        return None
    modules, _ = lora_targets(plan)
    return ALL_LINEAR if modules == (ALL_LINEAR,) else f"[{','.join(modules)}]"


def _logits(said: Said) -> Mapping[str, Any]:
    """A fused head computes its softmax in fp32, one on all logits in the dtype of the model."""
    if not said[f"{MODEL}.use_fused_kernels"]:
        computed = said["actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"]
        return {"logits": "full", "logits_dtype": "fp32" if computed == "fp32" else "bf16"}
    backend = said[f"{MODEL}.fused_kernel_options.impl_backend"]
    return {"logits": one_of(_PATHS, backend, "The backend of fused kernels"),
            "logits_dtype": "fp32"}  # fmt: skip


def _trained(prefix: str) -> tuple[Setting, ...]:
    """Rows of every model that trains."""
    return (
        carries(
            "gradient_checkpointing", f"{prefix}.enable_gradient_checkpointing", True,
            "model/hf_model.yaml:34", lambda value: "full" if truth(value) else "none",
            write=lambda plan: plan.gradient_checkpointing == "full",
        ),
        carries(
            "activation_offload", f"{prefix}.enable_activation_offload", False,
            "model/hf_model.yaml:37", truth,
        ),
        carries(
            "batch_shape", f"{prefix}.use_remove_padding", True, "model/hf_model.yaml:40",
            lambda value: "packed" if truth(value) else "padded",
            write=lambda plan: plan.batch_shape == "packed",
        ),
        carries("liger", f"{prefix}.use_liger", False, "model/hf_model.yaml:58", truth),
    )  # fmt: skip


_POLICY = _trained(MODEL)

POLICY = (
    Setting(
        name=f"{MODEL}.path", default=UNNAMED, source="model/hf_model.yaml:10",
        fields=("model",), write=lambda plan: plan.model,
        read=lambda value, said: {"model": _named(value)},
    ),
    Added(
        name=f"{MODEL}.override_config.attn_implementation", default=ATTENTION["flash"],
        source="workers/config/model.py:185", fields=("attention",),
        write=lambda plan: ATTENTION[plan.attention],
        read=lambda value, said: {"attention": one_of(_NAMES, value, "Attention by")},
    ),
    *_POLICY,
    joint(
        ("finetuning", "lora_rank"), f"{MODEL}.lora_rank", 0, "model/hf_model.yaml:43",
        lambda plan: plan.lora_rank if plan.finetuning == "lora" else None, _adapters,
    ),
    joint(
        ("lora_targets",), f"{MODEL}.target_modules", ALL_LINEAR, "model/hf_model.yaml:49",
        _written_targets, _targets,
    ),
    joint(
        ("logits", "logits_dtype"), f"{MODEL}.use_fused_kernels", False, "model/hf_model.yaml:61",
        lambda plan: plan.logits in KERNELS, _logits,
    ),
)  # fmt: skip

KERNEL = (
    joint(
        ("logits",), f"{MODEL}.fused_kernel_options.impl_backend", "torch",
        "model/hf_model.yaml:68", lambda plan: KERNELS.get(plan.logits),
    ),
)  # fmt: skip

CRITICS = (
    Setting(
        name=f"{CRITIC}.model.path", default=UNNAMED, source="model/hf_model.yaml:10",
        fields=("critic_model",), write=lambda plan: plan.critic_model or plan.model, read=_critic,
    ),
    *(
        same_as(
            row, row.name.replace(MODEL, f"{CRITIC}.model"), row.default, row.source, criticises
        )
        for row in _POLICY
    ),
)  # fmt: skip
