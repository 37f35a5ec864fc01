"""What several settings decide together; ``Values`` are all of them, given or default, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.values.dtypes import TORCH_NAMES
from planner.values.sharding import SHARDINGS, Sharding

Values = Mapping[str, Any]

DTYPES = {torch: ours for ours, torch in TORCH_NAMES.items()} | {
    name: name for name in TORCH_NAMES
}
"""Ours of torch's names, with or without ``torch.`` before them, and of DeepSpeed's."""
REPLICATED = {"NO": "none", "MULTI_GPU": "ddp"}
"""accelerate's ``distributed_type`` where every GPU has the whole state."""


def sharding(values: Values) -> str:
    """The plan's word for how the state is shared.

    Raises:
        ValueError: in a way that no plan has.
    """
    kind = values["accelerate.distributed_type"]
    if kind is None:  # no file and no flag: DDP, where there is more than one process
        kind = "NO" if processes(values) == 1 else "MULTI_GPU"
    if kind == "DEEPSPEED":
        stage = int(values["deepspeed.zero_optimization.stage"])
        return f"zero{stage}" if stage else "ddp"
    if kind == "FSDP":
        return f"fsdp{values['accelerate.fsdp_config.fsdp_version']}"
    if kind not in REPLICATED:
        raise ValueError(f"A plan's state is not shared by {kind}; set sharding by hand.")
    return REPLICATED[kind]


def way(values: Values) -> Sharding:
    """What that sharding is."""
    return SHARDINGS[sharding(values)]


def sharded_by_deepspeed(values: Values) -> bool:
    """Whether DeepSpeed shards; its stage 0 is DDP."""
    return bool(values["accelerate.distributed_type"] == "DEEPSPEED")


def processes(values: Values) -> int | None:
    """Processes in all; None where nobody said and the machine's GPUs decide."""
    said = values["accelerate.num_processes"]
    return None if said is None else int(said)


def mixed(values: Values) -> str:
    """Compute dtype of mixed precision, else ``no`` (TrainingArguments' ``__post_init__``).

    Raises:
        ValueError: a precision that no plan has.
    """
    fp16, bf16 = values["fp16"], values["bf16"]
    asked = values["accelerate.mixed_precision"] or "no"
    # TRL's trainers leave bf16 open, and take it unless fp16 is asked for.
    said = "fp16" if fp16 else "bf16" if bf16 or bf16 is None else asked
    if sharded_by_deepspeed(values):
        parts = {half: values[f"deepspeed.{half}.enabled"] for half in ("bf16", "fp16")}
        on = [half for half, part in parts.items() if part is True]
        said = (on or [said if parts.get(said, "auto") == "auto" else "no"])[0]
    if said not in ("no", "bf16", "fp16"):
        raise ValueError(f"No plan computes in {said}; set dtype by hand.")
    return str(said)


def checkpoints(values: Values) -> bool:
    """Whether layers are recomputed, by the trainer (either of its names) or by accelerate."""
    new, old = values["activation_checkpointing"], values["gradient_checkpointing"]
    by_accelerate = values["accelerate.fsdp_config.fsdp_activation_checkpointing"]
    fsdp = values["accelerate.distributed_type"] == "FSDP"
    return bool(old if new is None else new) or (fsdp and bool(by_accelerate))


def adapted(values: Values) -> bool:
    """Whether adapters train, by TRL's word or by a section of peft's."""
    return bool(values.get("use_peft") or values.get("lora"))


def offloads_activations(values: Values) -> bool:
    """Whether what layers save waits in host RAM: by TRL's word, the Trainer's, or accelerate's."""
    fsdp = values["accelerate.distributed_type"] == "FSDP"
    kept = values.get("activation_checkpointing_kwargs")
    own = values.get("activation_offloading") or (isinstance(kept, dict) and kept.get("offload"))
    by_accelerate = values["accelerate.fsdp_config.fsdp_activation_checkpointing_offload"]
    return bool(own) or bool(fsdp and by_accelerate)


def own_steps(values: Values) -> int:
    """Optimizer steps of the trainer in one step of a plan: the updates that a rollout has."""
    accumulated = int(values["gradient_accumulation_steps"])
    return max(1, (generated(values) or accumulated) // accumulated)


def generated(values: Values) -> int | None:
    """Micro-batches of one rollout; None where nothing is sampled, or nobody knows.

    ``GRPOConfig.__post_init__`` of trl 1.16.0.
    """
    if "num_generations" not in values:
        return None
    said, batch = values["steps_per_generation"], values["generation_batch_size"]
    if batch is not None and said is None:
        count = processes(values)
        each = None if count is None else int(values["per_device_train_batch_size"]) * count
        return int(batch) // each if each else None
    return int(said or values["gradient_accumulation_steps"])


def sequences(values: Values, micro_batches: int) -> int | None:
    """Rows of so many micro-batches over all processes."""
    count = processes(values)
    each = int(values["per_device_train_batch_size"])
    return None if count is None else micro_batches * each * count


def offloads_all(values: Values) -> bool:
    """Whether all state stays in host RAM: of FSDP, or of DeepSpeed's stage 3."""
    kind = values["accelerate.distributed_type"]
    if kind == "FSDP":
        return bool(values["accelerate.fsdp_config.fsdp_offload_params"])
    parts = (f"deepspeed.zero_optimization.offload_{one}.device" for one in ("optimizer", "param"))
    return kind == "DEEPSPEED" and all(values[part] == "cpu" for part in parts)


def shares_gpus(values: Values) -> bool:
    """Whether a trainer that samples has an engine in its own processes."""
    return bool(values.get("use_vllm")) and values["vllm_mode"] == "colocate"


def halves(value: int | None, values: Values) -> Mapping[str, Any]:
    """Lengths of a row's two parts, since the data alone says where a response begins.

    Raises:
        ValueError: nobody says how long rows are.
    """
    if value is None or value < 2:
        raise ValueError("The data set says how long rows are; set the lengths by hand.")
    return {"prompt_tokens": value // 2, "response_tokens": value - value // 2}
