"""torchtune's README tables: supervised fine-tuning in bf16 without masters.

Source of the differences: torchtune's ``modules/attention.py`` (read 2026-11), which
expands key and value heads to the query heads before its kernel, and the README's note
on its tables (batch 2, no accumulation, packed, compiled).
"""

from __future__ import annotations

from typing import Any

from accuracy.prediction import Mapping, Predicted
from accuracy.quantity import Addition, Answer, not_compiled, peak, scene
from planner.formulas.activations.kinds import KINDS
from planner.plan import Plan

BF16_BYTES = 2
HEAD_PRODUCTS = ("chunk's weight gradient", "previous chunk's weight gradient")
FROZEN_WHY = "no weight gradient of the frozen head (the plan's chunks make one)"
EXPANDED_WHY = "keys and values expanded to all query heads, saved by each layer"


def fields(model: str, gpu: str, row_tokens: int, **more: Any) -> dict[str, Any]:
    """A plan of one of the recipes."""
    return {
        "model": model,
        "method": "sft",
        "gpu": gpu,
        "gpus": 1,
        "sharding": "none",
        "master_dtype": "none",
        "batch_shape": "packed",
        "attention": "flash",
        "optimizer": "adamw-fused",
        "prompts_per_step": 2,
        "micro_batch_size": 2,
        "prompt_tokens": 1,
        "response_tokens": row_tokens - 1,
        "gradient_checkpointing": "none",
        "logits": "full",
        "chunk_tokens": 2 * row_tokens // CHUNKS,
        **more,
    }


def _expanded_heads(plan: Plan) -> Addition:
    """Two tensors of every layer, none recomputed, are as large as the queries, not the keys."""
    here = scene(plan)
    arch = here.policy.arch
    sizes = {
        "sequences": here.q.micro_rows,
        "tokens": here.q.micro_row_tokens,
        "head_dim": arch.head_dim,
        "value_bytes": BF16_BYTES,
        "copies": 2 * arch.layers,
    }
    wide = KINDS[("query", "value")].value(heads=arch.heads, **sizes)
    narrow = KINDS[("key", "value")].value(kv_heads=arch.kv_heads, **sizes)
    return Addition(bytes=int(wide) - int(narrow), why=EXPANDED_WHY)


def _allocated(plan: Plan | None) -> Answer:
    assert plan is not None
    return peak(
        plan,
        "allocated",
        additions=(_expanded_heads(plan),),
        variants=not_compiled(plan, "allocated"),
    )


def _adapters_allocated(plan: Plan | None) -> Answer:
    assert plan is not None
    whole = peak(plan, "allocated")
    less = peak(plan, "allocated", without=lambda term: term.name in HEAD_PRODUCTS)
    saved = less.bytes - whole.bytes
    return Answer(
        bytes=whole.bytes,
        where=whole.where,
        additions=(Addition(bytes=saved, why=FROZEN_WHY),) if saved else (),
        variants=not_compiled(plan, "allocated"),
    )


def _in_backward(plan: Plan | None) -> Answer:
    """Each gradient is used and freed at once."""
    assert plan is not None
    return peak(plan, "allocated")


SMALL, ROW = "meta-llama/Llama-3.2-3B", 4096
ASSUMED = (
    "plain step, one micro-batch, fused AdamW, flash attention for torchtune's masked kernel; "
    "the table's memory is taken as PyTorch's allocated peak"
)
CHUNKS = 8
"""CEWithChunkedOutputLoss's number of chunks of a micro-batch."""
CHUNKED = (
    ". torchtune keeps its bf16 logits in eight chunks; the plan recomputes chunks of the same size"
)


def mappings() -> tuple[Mapping, ...]:
    """Every torchtune row."""
    chunked = {"logits": "chunked", "compile": True}
    adapters = {**chunked, "finetuning": "lora", "gradient_checkpointing": "full"}
    return (
        Predicted(
            id="torchtune-Llama-3.1-8B-LoRA-1xRTX4090",
            level="allocated",
            fields=fields("meta-llama/Llama-3.1-8B", "rtx-4090", 2048, lora_rank=8, **adapters),
            answer=_adapters_allocated,
            comparable="approximate",
            assumed=ASSUMED + CHUNKED + ". Every linear layer has an adapter.",
            note="The same table has 30.3 GiB on a 48 GB card for the same model, so further "
            "savings were switched on for this one; offloaded activations would be 1 GiB.",
        ),
        Predicted(
            id="torchtune-Llama-3.1-70B-LoRA-8xA100",
            level="allocated",
            fields=fields(
                "meta-llama/Llama-3.1-70B",
                "a100-80gb",
                2048,
                lora_rank=16,
                **{**adapters, "gpus": 8, "sharding": "fsdp2", "prompts_per_step": 16},
            ),
            answer=_adapters_allocated,
            comparable="approximate",
            assumed=ASSUMED + CHUNKED + ". FSDP2 is planned as torch 2.13 runs it.",
            note="Shards (16.4 GiB), checkpoints (5.0) and root weights (3.9) leave 2.3 GiB of the "
            "published figure: room for one gathered layer of 1.6 GiB, where the estimate counts "
            "two and the flat buffer. The figure has stood in the README since September 2024.",
        ),
        Predicted(
            id="torchtune-3b-packed",
            level="allocated",
            fields=fields(SMALL, "a100-80gb", ROW),
            answer=_allocated,
            comparable="approximate",
            assumed=ASSUMED + ".",
            note="torchtune expands keys and values to 24 heads before its kernel.",
        ),
        Predicted(
            id="torchtune-3b-chunked-CE",
            level="allocated",
            fields=fields(SMALL, "a100-80gb", ROW, **chunked),
            answer=_allocated,
            comparable="approximate",
            assumed=ASSUMED + CHUNKED + ".",
            note="Compiled layers save fewer tensors (fused norms keep no fp32 copies, SwiGLU "
            "recomputes its product); what the estimate knows of compile decides this row.",
        ),
        Predicted(
            id="torchtune-3b-optimizer-in-backward",
            level="allocated",
            fields=fields(
                SMALL,
                "a100-80gb",
                ROW,
                **{**chunked, "gradient_checkpointing": "full", "optimizer_step": "in-backward"},
            ),
            answer=_in_backward,
            comparable="approximate",
            assumed=ASSUMED + CHUNKED + ".",
        ),
    )
