"""transformers' TrainingArguments, and the model that is handed to its Trainer: a row a setting.

Rows stand in the order in which files are written. Those of the model are the arguments of
``from_pretrained``, which scripts call alike. transformers 5.23.0, ``training_args.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.launch.huggingface.precision import dtypes, loaded_dtype, mixed_precision
from planner.launch.huggingface.processes import activations_by_accelerate, training_gpus
from planner.launch.huggingface.resolved import (
    Values,
    checkpoints,
    own_steps,
    sequences,
    shares_gpus,
)
from planner.launch.huggingface.table import beyond, row
from planner.launch.words import ATTENTION
from planner.numeric import ceil_div
from planner.plan import Plan
from planner.values.setting import Setting, refusing
from planner.values.sharding import sharding_of

RELEASE = "transformers 5.23.0"
MODEL = f"{RELEASE}, modeling_utils.py, from_pretrained"
DTYPES = ("dtype", "master_dtype", "base_dtype", "gradient_dtype", "reduce_dtype")
KERNELS = {spelled: name for name, spelled in ATTENTION.items()} | {
    "kernels-community/flash-attn2": "flash",
    "kernels-community/flash-attn3": "flash_attention_3",
}
"""What ``attn_implementation`` may say, as a plan's attention."""
BITSANDBYTES = ("adamw_bnb_8bit", "paged_adamw_8bit")


def accumulation(plan: Plan) -> int:
    """Micro-batches of an update, rounded up: the Trainer's updates are whole micro-batches."""
    together = plan.micro_batch_size * training_gpus(plan)
    return int(ceil_div(plan.prompts_per_update * plan.responses_per_prompt, together))


def updates(plan: Plan) -> int:
    """Updates of one step."""
    return int(plan.prompts_per_step // plan.prompts_per_update)


def written_steps(plan: Plan) -> int:
    """Steps of the Trainer, which are its optimizer's, in one of the plan's."""
    return updates(plan) * (1 if plan.optimizer_step == "update" else accumulation(plan))


def optimizer(plan: Plan) -> str:
    """The optimizer in transformers' words."""
    if plan.optimizer == "adamw-8bit":
        # torchao's states can be sharded as DTensors; bitsandbytes' cannot (bitsandbytes#1633).
        return "adamw_torch_8bit" if sharding_of(plan).fsdp == 2 else "adamw_bnb_8bit"
    return {
        "adamw-fused": "adamw_torch_fused",
        "adamw-foreach": "adamw_torch",
        "paged-adamw-8bit": "paged_adamw_8bit",
        "sgd": "sgd",
    }[plan.optimizer]


OPTIMIZERS = {
    "adamw_torch_fused": "adamw-fused",
    "adamw_torch": "adamw-foreach",
    "adamw_torch_8bit": "adamw-8bit",
    "adamw_bnb_8bit": "adamw-8bit",
    "adamw_8bit": "adamw-8bit",
    "paged_adamw_8bit": "paged-adamw-8bit",
    "sgd": "sgd",
}


def _optimizer(value: object, values: Values) -> Mapping[str, Any]:
    own = values["deepspeed.optimizer.type"]  # DeepSpeed's, on the card or on the CPU
    if own in ("Adam", "AdamW"):
        return {"optimizer": "adamw-fused"}
    if own is not None or value not in OPTIMIZERS:
        raise ValueError(f"No plan has the optimizer {own or value}; set optimizer by hand.")
    return {"optimizer": OPTIMIZERS[str(value)]}


def _attention(value: object, values: Values) -> Mapping[str, Any]:
    """None is transformers' own choice, which the model's defaults of a plan follow."""
    if value is None:
        return {}
    if value not in KERNELS:
        raise ValueError(f"No plan has the attention {value}; set attention by hand.")
    return {"attention": KERNELS[str(value)]}


def _update(value: int, values: Values) -> Mapping[str, Any]:
    """Prompts of an optimizer step; of a step too, where nothing is sampled."""
    rows, generations = sequences(values, int(value)), int(values.get("num_generations", 1))
    if rows is None:
        return {}
    samples = "num_generations" in values
    if rows % generations == 0:
        prompts = {"prompts_per_update": rows // generations, "optimizer_step": "update"}
        return prompts if samples else {**prompts, "prompts_per_step": rows}
    if value == 1:  # less than a prompt's responses: only all updates together are whole prompts
        return {"optimizer_step": "micro-batch"}
    raise ValueError(f"An update of {rows} rows is no whole number of {generations} responses.")


def _whole(value: int, values: Values, field: str) -> Mapping[str, Any]:
    """A count of the trainer's steps as one of the plan's."""
    together = own_steps(values)
    if value % together:
        raise ValueError(f"{value} optimizer steps are no whole number of steps of {together}.")
    return {field: int(value) // together}


def _steps(value: int, values: Values) -> Mapping[str, Any]:
    """-1 leaves it to epochs, and so to the data set."""
    return _whole(value, values, "steps") if value > 0 else {}


def _every(value: float, values: Values, kind: str) -> Mapping[str, Any]:
    """Steps between two checkpoints or validations; ``kind`` is ``save`` or ``eval``."""
    when, field = str(values[f"{kind}_strategy"]), f"{kind}_steps"
    if when == "no":
        return {field: 0}
    if when != "steps":
        raise ValueError(f"{kind}_strategy {when} hangs on the data; set {field} by hand.")
    every = value or values.get("logging_steps") or 0
    if not every or every != int(every):
        raise ValueError(f"{field} {every} is a share of all steps; set {field} by hand.")
    return _whole(int(every), values, field)


def _empty_cache(value: int | None, values: Values) -> Mapping[str, Any]:
    """Where an engine sleeps in the trainer's process, its cache goes before that wakes."""
    if value is None:
        sleeps = shares_gpus(values) and values["vllm_enable_sleep_mode"]
        return {"empty_cache": "between-phases" if sleeps else "never"}
    if value != 1:
        raise ValueError(f"A plan empties the cache every step or never, not every {value} steps.")
    return {"empty_cache": "every-step"}


def _recomputed(value: object, values: Values) -> Mapping[str, Any]:
    return {"gradient_checkpointing": "full" if checkpoints(values) else "none"}


def _row(line: int, name: str, default: object, *fields: str, **more: Any) -> Setting:
    return row(f"{RELEASE}, training_args.py, line {line}", name, default, *fields, **more)


WRITTEN: tuple[Setting, ...] = (
    row(
        *(MODEL, "model_name_or_path", None, "model"),
        write=lambda plan: plan.model,
        read=lambda value, values: {} if value is None else {"model": value},
    ),
    row(MODEL, "dtype", "auto", *DTYPES, write=loaded_dtype, read=dtypes),
    _row(874, "bf16", False, *DTYPES, write=lambda plan: mixed_precision(plan) == "bf16"),
    _row(880, "fp16", False, *DTYPES, write=lambda plan: mixed_precision(plan) == "fp16"),
    row(
        *(MODEL, "attn_implementation", None, "attention"),
        write=lambda plan: ATTENTION[plan.attention],
        read=_attention,
    ),
    _row(
        *(777, "per_device_train_batch_size", 8),
        *("micro_batch_size", "logprob_micro_batch_size"),
        write=lambda plan: plan.micro_batch_size,
        read=lambda value, values: {
            "micro_batch_size": int(value), "logprob_micro_batch_size": int(value)
        },
        unit="rows",
    ),
    _row(
        *(849, "gradient_accumulation_steps", 1),
        *("prompts_per_update", "optimizer_step"),
        write=lambda plan: accumulation(plan) if plan.optimizer_step == "update" else 1,
        read=_update,
        unit="micro-batches",
    ),
    _row(
        *(779, "max_steps", -1, "steps"),
        moves="seconds",
        write=lambda plan: plan.steps * written_steps(plan),
        read=_steps,
    ),
    _row(
        *(1183, "save_steps", 500, "save_steps"),
        moves="seconds",
        # The Trainer's own default saves, too, every 500 of its steps.
        write=lambda plan: plan.save_steps * written_steps(plan) or None,
        read=lambda value, values: _every(value, values, "save"),
    ),
    _row(
        *(926, "gradient_checkpointing", None, "gradient_checkpointing"),
        write=lambda plan: (
            plan.gradient_checkpointing == "full" and not activations_by_accelerate(plan)
        ),
        read=_recomputed,
    ),
    _row(812, "optim", "adamw_torch_fused", "optimizer", write=optimizer, read=_optimizer),
    _row(1059, "report_to", "none", write=lambda plan: "none", otherwise="Reports take no memory."),
    _row(
        *(957, "use_liger_kernel", False, "liger"),
        write=lambda plan: plan.liger or None,
        read=lambda value, values: {"liger": bool(value)},
    ),
    _row(
        *(983, "torch_empty_cache_steps", None, "empty_cache"),
        write=lambda plan: 1 if plan.empty_cache == "every-step" else None,
        read=_empty_cache,
    ),
)
"""What every export of the Trainer says, in this order."""

VALIDATION: tuple[Setting, ...] = (
    _row(
        *(1106, "eval_strategy", "no", "eval_steps"),
        moves="seconds",
        write=lambda plan: "steps" if plan.eval_steps else None,
    ),
    _row(
        *(1110, "eval_steps", None, "eval_steps"),
        moves="seconds",
        write=lambda plan: plan.eval_steps * written_steps(plan) or None,
        read=lambda value, values: _every(value, values, "eval"),
    ),
    _row(
        *(1128, "per_device_eval_batch_size", 8, "eval_steps"),
        write=lambda plan: plan.micro_batch_size if plan.eval_steps else None,
        read=refusing(
            "A plan validates in micro-batches of training, not in {value} rows.",
            lambda value, values: (
                values["eval_strategy"] != "no"
                and value != values["per_device_train_batch_size"]
            ),
        ),
    ),
)
"""What an export says where the plan validates."""

READ: tuple[Setting, ...] = (
    _row(1177, "save_strategy", "steps", "save_steps", moves="seconds"),
    _row(908, "activation_checkpointing", None, "gradient_checkpointing", read=_recomputed),
    _row(
        *(940, "torch_compile", False, "compile"),
        read=refusing(
            "This compiles the model as a whole; a plan compiles each layer.",
            lambda value, values: value,
        ),
    ),
    _row(
        *(1300, "use_cpu", False, "gpus"),
        read=refusing("This trains on a CPU; a plan is of GPUs.", lambda value, values: value),
    ),
    _row(1447, "fsdp", None, "sharding"),
    _row(1455, "fsdp_config", None, "sharding", "offload"),
    _row(1463, "deepspeed", None, "sharding", "offload"),
    # With the length of the data set, which no text says: where it counts, steps are asked for.
    _row(778, "num_train_epochs", 3.0, "steps", read=lambda value, values: {}),
    *beyond(RELEASE, "training"),
)

EARLIER = beyond("", "earlier")
"""What earlier releases took, and people's scripts still say."""

TRAINING = (*WRITTEN, *VALIDATION, *READ)
