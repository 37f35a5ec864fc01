"""AgileRL's profiling runs: LoRA GRPO with a vLLM in the trainer's process, from runs.json.

How they went, read from AgileRL 2.8.0.dev2: bf16 base, fp32 adapters under bf16 autocast, full
checkpointing, SDPA, AdamW. Prompts are a quarter of ``seq_len``; every response fills the rest.
``group_size`` responses for each of ``n_prompts`` prompts; log-probs in micro-batches of
``micro_batch``. vLLM 0.23: ``max_num_seqs`` is the group, ``max_num_batched_tokens`` the group's
tokens, sleep level 1; the trainer's weights are in host RAM while it generates. Measured by NVML
are a process's first rollout and its first update.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("runs.json")

TILE_BYTES = 256 * 2**20
"""fp32 logits of one tile of AgileRL's head, at most."""
VOCAB = 151_936
"""Entries of both models' vocabulary."""

GENERATION, TRAINING = "generation", "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured phase. ``baseline_bytes``: what the driver saw just before the update."""

    model: str
    card: str
    phase: str
    seq_len: int
    micro_batch: int
    group_size: int
    n_prompts: int
    lora_rank: int
    gpu_memory_utilization: float
    device_peak_bytes: int
    sleeping_baseline_bytes: int | None

    @property
    def words(self) -> str:
        """The row's settings, as tables name it."""
        return (
            f"{self.model.split('/')[-1]}, {self.card}, {self.phase}, {self.seq_len:,} tokens, "
            f"micro-batch {self.micro_batch}, group {self.group_size}, rank {self.lora_rank}"
        )

    @property
    def micro_batches(self) -> int:
        """Micro-batches of the update, each followed by an optimizer step."""
        return max(1, self.group_size * self.n_prompts // self.micro_batch)


@cache
def file() -> Mapping[str, Any]:
    """The whole file: source, licence, runs."""
    found: Mapping[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


@cache
def rows() -> tuple[Row, ...]:
    """Every measured phase, in the file's order."""
    return tuple(
        Row(model=run["model"], card=run["card"], **row)
        for run in file()["runs"]
        for row in run["rows"]
    )


def fields(row: Row) -> dict[str, Any]:
    """The row's plan, with the fields there are.

    Tiles of the head are the rows whose fp32 logits are 256 MiB.
    """
    prompt = row.seq_len // 4
    micro = min(row.micro_batch, row.group_size * row.n_prompts)
    return {
        "model": row.model,
        "method": "grpo",
        "framework": "plain",
        "autocast": True,
        "optimizer_step": "micro-batch",
        "gpu": row.card,
        "gpus": 1,
        "gpus_per_node": 1,
        "sharding": "none",
        "finetuning": "lora",
        "lora_rank": row.lora_rank,
        "lora_targets": "all-linear",
        "master_dtype": "fp32",
        "gradient_dtype": "fp32",
        "optimizer": "adamw-foreach",
        "offload": "all-between-phases",
        "prompts_per_step": row.n_prompts,
        "prompts_per_update": row.n_prompts,
        "responses_per_prompt": row.group_size,
        "micro_batch_size": micro,
        "logprob_micro_batch_size": micro,
        "prompt_tokens": prompt,
        "response_tokens": row.seq_len - prompt,
        "validation_response_tokens": row.seq_len - prompt,
        "batch_shape": "full",
        "gradient_checkpointing": "full",
        "attention": "sdpa",
        "kl": "loss",
        "reference": "frozen-adapter",
        "logits": "chunked",
        "chunk_tokens": TILE_BYTES // (4 * VOCAB),
        "chunk_compile": True,
        "rollout": "vllm-colocated",
        "gpu_memory_utilization": row.gpu_memory_utilization,
        "vllm_sleep_level": 1,
        "max_num_seqs": row.group_size,
        "max_num_batched_tokens": row.group_size * row.seq_len,
    }
