"""What a plan says to TrainingArguments, from_pretrained and peft, by their own names.

Rows beside those that every framework over transformers has; peft's stand below ``lora.``. Read in
transformers 5.23.0, trainer.py and training_args.py, and peft 0.21.2, tuners/lora/config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.launch.huggingface.processes import activations_by_accelerate
from planner.launch.huggingface.table import nested, row, written
from planner.launch.huggingface.training import WRITTEN
from planner.launch.words import lora_targets
from planner.plan import Plan
from planner.values.setting import Setting

MODEL = ("model_name_or_path", "dtype", "attn_implementation")
"""Settings of from_pretrained."""
ADAPTERS = "lora"
"""The section of peft's settings."""
LAYERS_ALONE = {"cross_entropy": False, "fused_linear_cross_entropy": False}
"""Liger's kernels of layers without its loss, with which a model makes no logits."""


def _offloads(plan: Plan) -> Mapping[str, object] | None:
    if not plan.activation_offload or activations_by_accelerate(plan):
        return None
    return {"use_reentrant": False, "offload": True}


def _offloaded(value: object, values: Mapping[str, Any]) -> Mapping[str, Any]:
    told = value if isinstance(value, dict) else {}
    if told.get("every_n_layers", 1) != 1 or told.get("use_reentrant"):
        raise ValueError("A plan checkpoints every layer, and without reentrant checkpoints.")
    return {"activation_offload": True} if told.get("offload") else {}


def _without_loss(value: object, values: Mapping[str, Any]) -> Mapping[str, Any]:
    if not values["use_liger_kernel"] or value == LAYERS_ALONE:
        return {}
    raise ValueError(
        "Less: Liger's fused loss makes no logits. A plan has Liger's kernels of layers alone: "
        "set liger_kernel_config so."
    )


def _lora(line: int, name: str, default: object, field: str, write: Any) -> Setting:
    """A row of peft's, which an export says where adapters train."""
    return row(
        *(f"peft 0.21.2, tuners/lora/config.py, line {line}", f"{ADAPTERS}.{name}", default, field),
        write=lambda plan: None if plan.finetuning == "full" else write(plan),
    )


def _modules(plan: Plan) -> str | list[str]:
    modules = lora_targets(plan)[0]
    # all-linear is a word; of names peft takes a text for a pattern of whole paths.
    return modules[0] if modules == ("all-linear",) else list(modules)


RENAMED = {"gradient_checkpointing": "activation_checkpointing"}
"""What 5.23.0 warns of under its older name; releases before it know that one alone."""

ROWS: tuple[Setting, ...] = (
    *(replace(row, name=RENAMED.get(row.name, row.name)) for row in WRITTEN),
    row(
        *("transformers 5.23.0, trainer.py, line 1503", "activation_checkpointing_kwargs", None),
        "activation_offload",
        moves="memory",
        write=_offloads,
        read=_offloaded,
    ),
    row(
        "transformers 5.23.0, integrations/liger.py, apply_liger_kernel",
        *("liger_kernel_config", None, "liger", "logits"),
        moves="memory",
        write=lambda plan: LAYERS_ALONE if plan.liger else None,
        read=_without_loss,
    ),
    _lora(632, "r", 8, "lora_rank", lambda plan: plan.lora_rank),
    _lora(633, "target_modules", None, "lora_targets", _modules),
    _lora(
        *(941, "target_parameters", None, "lora_targets"),
        lambda plan: list(lora_targets(plan)[1]) or None,
    ),
    _lora(653, "lora_dropout", 0.0, "lora_dropout", lambda plan: plan.lora_dropout),
    _lora(88, "task_type", None, "finetuning", lambda plan: "CAUSAL_LM"),
)
"""What an export says, in this order."""


def settings(plan: Plan) -> dict[str, Any]:
    """All of it; peft's in a section of their own, where adapters train."""
    return nested(written(ROWS, plan), "")


def training(plan: Plan) -> dict[str, Any]:
    """Of these TrainingArguments' fields; all others keep their defaults."""
    told = settings(plan)
    return {name: told[name] for name in told if name not in (*MODEL, ADAPTERS)}
