"""ms-swift's header comments: rounded gigabytes of one process, without a method of measuring.

Only packed rows say how long they are. ms-swift runs Hugging Face's Trainer in bf16 autocast,
adapters in fp32, checkpointing on.
"""

from __future__ import annotations

from typing import Any

from accuracy.peaks.planned import How, Left, Planned
from accuracy.peaks.rows import Row
from planner import catalog

ASSUMED = (
    "plain step with Hugging Face's loss on all logits (with Liger the fused head), checkpointed, "
    "fused AdamW, packed rows of max_length tokens; compared with the estimate's reserved bytes"
)
WITHOUT_PACKING = "Not using use_liger_kernel and packing"
BASES = {"Qwen/Qwen2.5-7B-Instruct": "Qwen/Qwen2.5-7B"}


def how(row: Row) -> How:
    """The plan of one row."""
    found = row.settings
    if row.card_size_only:
        return Left(reason="the figure is the card's size, not a reading")
    if "micro_batch_size" in found or "tensor_model_parallel_size" in found:
        return Left(reason="Megatron's parallelism: not modelled")
    if row.algorithm not in ("SFT", "dpo"):
        return Left(reason="ms-swift: an algorithm or settings that no plan has")
    model = BASES.get(row.model, row.model)
    if model not in {one.id for one in catalog.models()}:
        return Left(reason="a model outside the catalog, with a tower or without a sum by hand")
    if found.get("packing") != "true" or found.get("variant", "").endswith(WITHOUT_PACKING):
        return Left(reason="lengths of rows not recorded")
    adapted = row.tuning == "lora"
    if adapted and row.gpus > 1:
        return Left(reason="adapters under ZeRO and autocast: which dtype computes is not stated")
    return Planned(
        group=f"ms-swift {row.algorithm}, {row.tuning}",
        fields=_fields(row, model, adapted),
        exact=False,
        assumed=ASSUMED,
    )


def _liger(row: Row) -> bool:
    """One script's header has figures of several settings: its variant says which."""
    without = str(row.settings.get("variant", "")).startswith("Not using use_liger_kernel")
    return row.settings.get("use_liger_kernel") == "true" and not without


def _fields(row: Row, model: str, adapted: bool) -> dict[str, Any]:
    found = row.settings
    rows = int(found["per_device_train_batch_size"])
    each = rows * row.gpus * int(found["gradient_accumulation_steps"])
    fields: dict[str, Any] = {
        "model": model,
        "method": row.algorithm.lower(),
        "gpu": "a100-80gb",
        "gpus": row.gpus,
        "gpus_per_node": 8,
        "sharding": found.get("deepspeed", "none"),
        "batch_shape": "packed",
        "attention": "flash",
        "prompts_per_step": each,
        "prompts_per_update": each,
        "micro_batch_size": rows,
        "prompt_tokens": 1,
        "response_tokens": int(found["max_length"]) - 1,
        "gradient_checkpointing": "full",
        "liger": _liger(row),
        "logits": "fused" if _liger(row) else "full",
    }
    if row.gpus == 1 and not adapted:
        # Nothing widens what was loaded as torch_dtype says.
        fields |= {"master_dtype": "none", "gradient_dtype": "bf16"}
    if adapted:
        more = {"lora_rank": int(found["lora_rank"]), "lora_targets": "all-linear"}
        fields |= {"finetuning": "lora", "master_dtype": "fp32", "gradient_dtype": "fp32", **more}
    return fields
