"""The Trainer's settings: the table that exporter and importer read.

TrainingArguments', from_pretrained's, peft's below ``lora.``, and those of the program that is
exported. Read in transformers 5.23.0 and peft 0.21.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.launch.huggingface import adapters
from planner.launch.huggingface.processes import activations_by_accelerate
from planner.launch.huggingface.resolved import Values, offloads_activations
from planner.launch.huggingface.table import nested, row, written
from planner.launch.huggingface.training import WRITTEN
from planner.launch.words import lora_targets
from planner.plan import Plan
from planner.values.setting import Setting, refusing

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


def _offloaded(value: object, values: Values) -> Mapping[str, Any]:
    told = value if isinstance(value, dict) else {}
    if told.get("every_n_layers", 1) != 1 or told.get("use_reentrant"):
        raise ValueError("A plan checkpoints every layer, and without reentrant checkpoints.")
    return {"activation_offload": offloads_activations(values)}


PEFT = "peft 0.21.2, tuners/lora/config.py, line {}"


def _lora(
    line: int, name: str, default: object, field: str, write: Any, read: Any = None
) -> Setting:
    """A row of peft's, which an export says where adapters train."""
    return row(
        *(PEFT.format(line), f"{ADAPTERS}.{name}", default, field),
        write=lambda plan: None if plan.finetuning == "full" else write(plan),
        read=read,
    )


def _modules(plan: Plan) -> str | list[str]:
    modules = lora_targets(plan)[0]
    # all-linear is a word; of names peft takes a text for a pattern of whole paths.
    return modules[0] if modules == ("all-linear",) else list(modules)


OLD = "gradient_checkpointing"
NEW = "activation_checkpointing"
"""What 5.23.0 warns of under its older name; releases before it know that one alone."""
KEPT = f"{NEW}_kwargs"

ROWS: tuple[Setting, ...] = (
    *(replace(row, name={OLD: NEW}.get(row.name, row.name)) for row in WRITTEN),
    row(
        *("transformers 5.23.0, training_args.py, line 916", KEPT, None, "activation_offload"),
        moves="memory",
        write=_offloads,
        read=_offloaded,
        whole=True,
    ),
    row(
        "transformers 5.23.0, integrations/liger.py, apply_liger_kernel",
        *("liger_kernel_config", None, "liger", "logits"),
        moves="memory",
        write=lambda plan: LAYERS_ALONE if plan.liger else None,
        read=refusing(
            "Less: Liger's fused loss makes no logits. A plan has Liger's kernels of layers alone: "
            "set liger_kernel_config so.",
            lambda value, values: values["use_liger_kernel"] and value != LAYERS_ALONE,
        ),
        whole=True,
    ),
    _lora(632, "r", 8, "lora_rank", lambda plan: plan.lora_rank, adapters.rank),
    _lora(
        *(633, "target_modules", None, "lora_targets", _modules),
        adapters.targets_of(f"{ADAPTERS}.target_modules", f"{ADAPTERS}.target_parameters"),
    ),
    _lora(
        *(941, "target_parameters", None, "lora_targets"),
        lambda plan: list(lora_targets(plan)[1]) or None,
    ),
    _lora(
        *(653, "lora_dropout", 0.0, "lora_dropout", lambda plan: plan.lora_dropout),
        adapters.dropout,
    ),
    _lora(88, "task_type", None, "finetuning", lambda plan: "CAUSAL_LM"),
)
"""What an export says of Trainer, model and adapters, in this order."""

OWN = "planner/frameworks/hf_trainer/program/train.py"
PROGRAM: tuple[Setting, ...] = (
    *(
        row(
            *(OWN, field, None, field),
            write=lambda plan, field=field: getattr(plan, field),
            read=lambda value, values, field=field: {field: int(value)} if value else {},
            unit="tokens",
        )
        for field in ("prompt_tokens", "response_tokens")
    ),
    row(
        *("transformers 5.23.0, data/data_collator.py", "batch_shape", "padded", "batch_shape"),
        write=lambda plan: plan.batch_shape,
        read=lambda value, values: {"batch_shape": str(value)},
    ),
)
"""What the program itself is told: rows of the data, which no setting of the Trainer's says."""


def settings(plan: Plan) -> dict[str, Any]:
    """All of the Trainer's; peft's in a section of their own, where adapters train."""
    return nested(written(ROWS, plan), "")


def training(plan: Plan) -> dict[str, Any]:
    """Of these TrainingArguments' fields; all others keep their defaults."""
    told = settings(plan)
    return {name: told[name] for name in told if name not in (*MODEL, ADAPTERS)}
