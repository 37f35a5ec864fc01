"""Training without rollouts: pretraining, fine-tuning, and RL trainers that are fed.

Settings are those of the rows and, where they say no more than a name, of the repositories that
they name (read 2026-11): llm-foundry's benchmarking README and yamls (learned positions, as the
parameter counts show; no biases, which the gpt2 shape adds: under 0.1 % of its products),
torchtitan's llama3 configs, torchtune's recipes, ms-swift's benchmark scripts, prime-rl as in
accuracy/prime_rl.py.
"""

from __future__ import annotations

import re
from typing import Any

from accuracy import prime_rl
from accuracy.timings.planned import LESSER, How, Left, Planned, card, model, parallel
from accuracy.timings.rows import Row
from planner.catalog import encode_config

FP8 = "fp8 products in training: no field says"
FLASH_4 = "FlashAttention-4: no plan has it"

MPT = {
    "MPT-1b": (2048, 24, 16),
    "MPT-3b": (2560, 32, 20),
    "MPT-7b": (4096, 32, 32),
    "MPT-13b": (5120, 40, 40),
    "MPT-30b": (7168, 48, 56),
    "MPT-70b": (8192, 80, 64),
}
"""Width, layers and heads of llm-foundry's benchmarking yamls."""

TUNED: dict[str, dict[str, Any]] = {
    "chunked CE": {"logits": "chunked", "chunk_tokens": 1024},
    "activation checkpointing": {"gradient_checkpointing": "full"},
    "optimizer in backward": {"optimizer_step": "in-backward"},
    "activation offload": {"activation_offload": True},
    "8-bit AdamW": {"optimizer": "adamw-8bit", "optimizer_step": "update"},
    "LoRA": {"finetuning": "lora", "lora_rank": 8, "optimizer": "adamw-fused"},
}
"""torchtune's table, from its third row on: each technique stays on in the rows below it."""

OTHERS = {
    "NVIDIA-NeMo/RL": "Megatron, whose parallelism is not stated",
    "NVIDIA-NeMo/Megatron-Bridge": FP8,
    "NVIDIA-NeMo/Automodel": "expert-parallel training",
    "NVIDIA/Megatron-LM": "Megatron, whose parallelism is not stated",
    "summarizeddata.com": "batch and lengths are not stated",
    "allenai/open-instruct": "a model that the catalog does not have, and pairs of unknown length",
}
"""Projects no row of which has a plan, by what stops the rows that no parallelism does."""


def how(row: Row) -> How:
    """A trainer's row as a plan; ``KeyError`` for a project that nobody mapped."""
    known = {
        "mosaicml/llm-foundry": _mpt,
        "pytorch/torchtitan": _titan,
        "pytorch/torchtune": _tune,
        "modelscope/ms-swift": _swift,
        "PrimeIntellect-ai/prime-rl": _prime,
    }
    if row.project in known:
        return known[row.project](row)
    return Left(reason=_elsewhere(row))


def _elsewhere(row: Row) -> str:
    """Why no row of a project has a plan."""
    split = parallel(row)
    if split:
        return f"{split}-parallel training"
    return OTHERS[row.project]


def _plan(row: Row, *, batch: int, **more: Any) -> dict[str, Any]:
    """A step of fine-tuning on rows of one length, ``batch`` of them in all."""
    return {
        "model": model(row),
        "method": "sft",
        "gpu": card(row),
        "gpus": row["gpus"],
        "prompts_per_step": batch,
        "micro_batch_size": row["micro_batch"],
        "prompt_tokens": 1,
        "response_tokens": row["sequence_tokens"] - 1,
        "batch_shape": "full",
        "attention": "flash",
        "logits": "full",
        **more,
    }


def _mpt(row: Row) -> How:
    width, layers, heads = MPT[row["model"]]
    config = {
        "model_type": "gpt2",
        "vocab_size": 50368,
        "n_positions": row["sequence_tokens"],
        "n_embd": width,
        "n_layer": layers,
        "n_head": heads,
        "activation_function": "gelu",
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    }
    batch = _number(r"GBS (\d+)", row)
    checkpointed = "activation checkpointing True" in row["other"]
    return Planned(
        fields=_plan(
            row,
            batch=batch,
            config=encode_config(config),
            sharding="fsdp1",
            gradient_checkpointing="full" if checkpointed else "none",
            reduce_dtype="bf16",
        ),
        exact=True,
        tokens=batch * row["sequence_tokens"],
        assumed="MPT as GPT-2's modules, FSDP1 with bf16 reduction, nothing compiled",
    )


def _titan(row: Row) -> How:
    split = parallel(row)
    if split:
        return Left(reason=f"{split}-parallel training")
    if "fp8" in row["other"]:
        return Left(reason=FP8)
    whole = "full AC" in row["other"]
    batch = row["micro_batch"] * row["gpus"]
    compiled = "compile" in row["other"]
    return Planned(
        fields=_plan(
            row,
            batch=batch,
            sharding="fsdp2",
            gradient_checkpointing="full" if whole else "none",
            attention="sdpa",
            compile=compiled,
        ),
        tokens=batch * row["sequence_tokens"],
        assumed=LESSER[row["gpu"]]
        + ("" if whole else "; its selective checkpointing planned as none"),
    )


def _tune(row: Row) -> How:
    if "unpacked" in row["other"]:
        return Left(reason="rows of unknown length")
    lora = "LoRA" in row["method"]
    fields = _plan(
        row,
        batch=2,
        sharding="none",
        master_dtype="none",
        batch_shape="packed",
        gradient_checkpointing="none",
        compile="packed" not in row["other"] or "compile" in row["other"],
    )
    if row["sequence_tokens"] == 2048:
        quantised = "QLoRA" in row["method"]
        fields |= TUNED["chunked CE"] | TUNED["activation checkpointing"] | TUNED["LoRA"]
        fields |= {"finetuning": "qlora" if quantised else "lora", "compile": not quantised}
    else:
        for name, more in TUNED.items():
            if _rank(row) >= 3 + list(TUNED).index(name):
                fields |= more
        if lora:
            fields |= {"compile": True}
    return Planned(
        fields=fields,
        exact=fields["gradient_checkpointing"] == "none",
        tokens=2.0 * row["sequence_tokens"],
        assumed="one packed row of two, flash attention for its masked kernel (checkpointed, a "
        "plan then runs its layers uncompiled), adapters of rank 8 on every linear layer",
    )


def _rank(row: Row) -> int:
    """A row's place in torchtune's table of stacked techniques."""
    return int(row.id.split("a100-")[1].split("-")[0])


def _swift(row: Row) -> How:
    stage = row["parallel"].get("train_zero")
    if stage is None:
        return Left(reason="Megatron, whose parallelism is not stated")
    return Planned(
        fields=_plan(
            row,
            batch=16,
            sharding=f"zero{stage}",
            gradient_dtype="bf16",
            batch_shape="packed",
            gradient_checkpointing="full",
        ),
        tokens=16.0 * row["sequence_tokens"],
        assumed=LESSER[row["gpu"]],
    )


def _prime(row: Row) -> How:
    if "flash_attention_4" in row["other"]:
        return Left(reason=FLASH_4)
    adapters = "LoRA" in row["method"]
    offload = "activation offload" in row["other"]
    tokens, gpus, assumed = row["sequence_tokens"], row["gpus"], prime_rl.ASSUMED
    if "SFT" in row["method"]:
        fields = {
            **prime_rl.SFT.fields,  # type: ignore[dict-item]
            "model": model(row),
            "gpu": card(row),
            "gpus": gpus,
            "prompts_per_step": 2 * gpus,
            "response_tokens": tokens - 1,
        }
    else:
        rank = 16 if adapters else 0
        fields = prime_rl.fields(model(row), card(row), gpus, tokens, offload=offload, rank=rank)
        if rank and "A3B" in row["model"]:
            fields["lora_targets"] = "q_proj,k_proj,v_proj,o_proj"
            assumed += " Experts have no adapters."
    if "flash_attention_3" in row["other"]:
        fields["attention"] = "flash_attention_3"
    return _fed(row, fields, assumed)


def _fed(row: Row, fields: dict[str, Any], assumed: str) -> Planned:
    """Two rows a card and step, whose tokens and experts decide the time."""
    tokens = 2.0 * row["gpus"] * row["sequence_tokens"]
    return Planned(fields=fields, exact=True, tokens=tokens, assumed=assumed)


def _number(pattern: str, row: Row) -> int:
    found = re.search(pattern, row["other"])
    if found is None:
        raise ValueError(f"{row.id}: {pattern!r} is not in its settings.")
    return int(found.group(1))
