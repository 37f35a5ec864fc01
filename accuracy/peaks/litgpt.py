"""litgpt's table of finetuning runs on A10Gs, from the configs it names.

Read at commit 26857050: bf16 throughout (weights, adapters, AdamW's state), no checkpointing on
one GPU, FSDP with checkpointed blocks on several for full finetuning; the table's LoRA figures of
four GPUs are those of one. Rows are padded to the longest of a micro-batch and cut at
``max_seq_length``; the longest of the data set comes first.
"""

from __future__ import annotations

from typing import Any

from accuracy.peaks.planned import NO_SUM, How, Left, Planned
from accuracy.peaks.rows import Row

MODELS = {
    "gemma-2-9b": "google/gemma-2-9b",
    "llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "llama-3-8b": "meta-llama/Llama-3.1-8B",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B",
    "llama-3.2-3b": "meta-llama/Llama-3.2-3B",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
    "mistral-7b-v0.2": "mistralai/Mistral-7B-v0.1",
    "Phi-3-mini-4k-instruct": "microsoft/Phi-3-mini-4k-instruct",
}
"""Models with a sum of their own, by the name in a row."""

SAME_NAME = "gemma2-2b/"
"""Of this folder's rows the model is Gemma 2, which the table's name does not say."""

TARGETS = {
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "projection": "o_proj",
    "mlp": "gate_proj,up_proj,down_proj",
    "head": "lm_head",
}

ASSUMED = (
    "transformers' layers for litgpt's own; every row of max_seq_length tokens; logits in chunks; "
    "AdamW as foreach"
)


def how(row: Row) -> How:
    """The plan of one row."""
    config = str(row.settings["config"])
    gemma2 = config.startswith(SAME_NAME) and row.model == "gemma-2b"
    model = "google/gemma-2-2b" if gemma2 else MODELS.get(row.model)
    if model is None:
        return Left(reason=NO_SUM.format(model=row.model))
    if "precision" not in row.settings:
        return Left(reason="litgpt: the row states neither precision nor adapters")
    targets = row.settings.get("lora_targets", [])
    if "head" in targets:
        return Left(reason="litgpt: an adapter on the head, beside the plain step's loss")
    return Planned(
        group=f"litgpt {row.tuning}",
        fields=_fields(row, model, targets),
        exact=False,
        assumed=ASSUMED,
    )


def _fields(row: Row, model: str, targets: list[str]) -> dict[str, Any]:
    size, sharded = row.settings["micro_batch_size"], row.tuning == "full" and row.gpus > 1
    gpus = row.gpus if sharded else 1
    # The table's configs accumulate, so that gradients of earlier micro-batches are there.
    fields: dict[str, Any] = {
        "model": model,
        "method": "sft",
        # Fabric's no_backward_sync reduces once an update, as TRL's trainer does.
        "framework": "trl" if sharded else "plain",
        "gpu": "a10g",
        "gpus": gpus,
        "gpus_per_node": 8,
        "sharding": "fsdp1" if sharded else "none",
        "dtype": "bf16",
        "master_dtype": "none",
        "gradient_dtype": "bf16",
        "batch_shape": "padded",
        "attention": "eager" if "gemma-2" in model else "sdpa",
        "optimizer": "adamw-foreach",
        "prompts_per_step": 2 * size * gpus,
        "prompts_per_update": 2 * size * gpus,
        "micro_batch_size": size,
        "prompt_tokens": 1,
        "response_tokens": row.settings["max_seq_length"] - 1,
        "gradient_checkpointing": "full" if sharded else "none",
        "logits": "chunked",
    }
    if row.tuning != "full":
        fields |= {
            "finetuning": row.tuning,
            "lora_rank": row.settings["lora_r"],
            "lora_targets": ",".join(TARGETS[name] for name in targets),
            "lora_dropout": 0.05,
        }
    return fields
