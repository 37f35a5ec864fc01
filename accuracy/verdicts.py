"""Runs of which only the outcome is published (verdicts.json), beside the estimate's verdict.

A *false fits* is an estimate that says fits of a run that ended out of memory: none may. A *false
out of memory* is one that says so of a run that went through.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from planner.estimate import estimate
from planner.footprint import Verdict
from planner.plan import Plan

FILE = Path(__file__).with_name("verdicts.json")

ENDED = {
    "ran": "ran",
    "recommended": "recommended by its authors",
    "out of memory": "ended out of memory",
    "host memory": "ended out of host RAM",
}
MEGATRON = "Megatron's parallelism: not modelled"
UNSTATED = "model, batch or lengths are not stated"

_TUNED: dict[str, Any] = {
    "method": "grpo",
    "framework": "verl",
    "gpu": "h100-80gb",
    "finetuning": "lora",
    "lora_rank": 32,
    "lora_targets": "all-linear",
    "sharding": "fsdp1",
    "prompt_tokens": 512,
    "response_tokens": 1024,
    "validation_response_tokens": 1024,
    "batch_shape": "packed",
    "attention": "flash",
    "offload": "all-between-phases",
    "reference": "adapter-disabled",
    "kl": "loss",
    "rollout": "vllm-colocated",
    "max_num_seqs": 512,
    "max_num_batched_tokens": 1536,
}


def _tuned(model: str, gpus: int, each: int, responses: int, share: float) -> dict[str, Any]:
    """Verl's table of the largest batch that one GPU takes: every prompt of a GPU at once."""
    return {
        **_TUNED,
        "model": model,
        "gpus": gpus,
        "gpus_per_node": gpus,
        "prompts_per_step": each * gpus,
        "prompts_per_update": each * gpus,
        "responses_per_prompt": responses,
        "micro_batch_size": each,
        "logprob_micro_batch_size": each,
        "rollout_tensor_parallel": gpus,
        "gpu_memory_utilization": share,
    }


_FULL: dict[str, Any] = {
    **{key: value for key, value in _TUNED.items() if not key.startswith("lora")},
    "finetuning": "full",
    "reference": "offloaded",
}

PLANS: Mapping[str, dict[str, Any] | str] = {
    "verl-tuning-qwen2-0.5b_grpo-lora_1_h100_fsdp_vllm": "groups of one response: no method",
    "verl-tuning-qwen2-3b_grpo-lora_1_h100_fsdp_vllm": _tuned("Qwen/Qwen2.5-3B", 1, 62, 5, 0.1),
    "verl-tuning-qwen2-14b_grpo-lora_2_h100_fsdp_vllm": _tuned("Qwen/Qwen2.5-14B", 2, 58, 5, 0.25),
    "verl-tuning-qwen2-72b_grpo-lora_8_h100_fsdp_vllm": _tuned("Qwen/Qwen2.5-72B", 8, 22, 5, 0.4),
    "verl-tuning-14b-4xH800": {
        **_FULL,
        "model": "Qwen/Qwen2.5-14B",
        "gpus": 4,
        "gpus_per_node": 4,
        "prompts_per_step": 1024,
        "prompts_per_update": 256,
        "responses_per_prompt": 5,
        "micro_batch_size": 16,
        "logprob_micro_batch_size": 16,
        "prompt_tokens": 1024,
        "rollout_tensor_parallel": 4,
        "gpu_memory_utilization": 0.5,
        "max_num_batched_tokens": 8192,
    },
    "verl-tuning-72b-32xH20": {
        **_FULL,
        "model": "Qwen/Qwen2.5-72B",
        "gpu": "h20-96gb",
        "gpus": 32,
        "prompts_per_step": 1024,
        "prompts_per_update": 256,
        "responses_per_prompt": 5,
        "max_tokens_per_micro_batch": 24000,
        "response_tokens": 512,
        "validation_response_tokens": 512,
        "rollout_tensor_parallel": 16,
        "gpu_memory_utilization": 0.6,
        "max_num_batched_tokens": 8192,
    },
    "verl-lora-72b-8x80": {
        **_tuned("Qwen/Qwen2.5-72B", 8, 8, 5, 0.4),
        "micro_batch_size": 1,
        "logprob_micro_batch_size": 1,
        "max_num_seqs": 64,
    },
    "verl-dsv3-128xH20": MEGATRON,
    "verl-dsv3-512xH20": MEGATRON,
    "verl-qwen3-235b-64xH20": MEGATRON,
    "verl-qwen3-235b-256xH20": MEGATRON,
    "intuitor-verl-olmo7b": {
        **_FULL,
        "model": "allenai/OLMo-2-1124-7B",
        "method": "intuitor",
        "gpus": 4,
        "gpus_per_node": 4,
        "offload": "none",
        "prompts_per_step": 128,
        "prompts_per_update": 128,
        "responses_per_prompt": 16,
        "micro_batch_size": 4,
        "logprob_micro_batch_size": 4,
        "prompt_tokens": 1024,
        "response_tokens": 2048,
        "validation_response_tokens": 2048,
        "rollout_tensor_parallel": 4,
        "gpu_memory_utilization": 0.8,
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 8192,
    },
    "intuitor-openr1-7B": "micro-batch is not stated",
    "grade-exp4-before": {
        "model": "Qwen/Qwen3-4B",
        "method": "grade",
        "gpu": "h100-80gb",
        "gpus": 1,
        "gpus_per_node": 1,
        "sharding": "none",
        "dtype": "fp32",
        "master_dtype": "none",
        "finetuning": "lora",
        "lora_rank": 16,
        "lora_targets": "q_proj,k_proj,v_proj,o_proj",
        "reference": "copy",
        "reward": "model",
        "prompts_per_step": 4,
        "prompts_per_update": 4,
        "micro_batch_size": 4,
        "prompt_tokens": 32,
        "response_tokens": 48,
        "gradient_checkpointing": "none",
        "attention": "eager",
    },
    "slime-qwen3-30b-8xH800": MEGATRON,
    "slime-glm4.7-355b-64xH100": MEGATRON,
    "swift-grpo-7b-full-6+2x80": {
        "model": "Qwen/Qwen2.5-7B",
        "method": "grpo",
        "framework": "trl",
        "gpu": "a100-80gb",
        "gpus": 8,
        "gpus_per_node": 8,
        "rollout_gpus": 2,
        "rollout": "vllm-separate",
        "sharding": "zero2",
        "prompts_per_step": 3,
        "prompts_per_update": 3,
        "responses_per_prompt": 8,
        "micro_batch_size": 2,
        "logprob_micro_batch_size": 2,
        "prompt_tokens": 512,
        "response_tokens": 2048,
        "kl": "loss",
        "reference": "copy",
    },
    "verl-855": {
        **_FULL,
        "model": "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B",
        "gpus": 8,
        "offload": "none",
        "prompts_per_step": 1024,
        "prompts_per_update": 512,
        "responses_per_prompt": 8,
        "max_tokens_per_micro_batch": 24000,
        "response_tokens": 512,
        "validation_response_tokens": 512,
        "rollout_tensor_parallel": 8,
        "max_num_batched_tokens": 8192,
    },
    "verl-388": MEGATRON,
    "openrlhf-887": UNSTATED,
    "openrlhf-762": UNSTATED,
    "openrlhf-1013": UNSTATED,
    "slime-1851": MEGATRON,
    "prime-rl-1xh100-Qwen--Qwen3-0.6B-sft-full-1gpu-Recompute-flash_attention_3-65536-cp1-ep1": {
        "model": "Qwen/Qwen3-0.6B",
        "method": "sft",
        "gpu": "h100-80gb",
        "gpus": 1,
        "gpus_per_node": 1,
        "sharding": "fsdp2",
        "prompts_per_step": 2,
        "prompts_per_update": 2,
        "micro_batch_size": 1,
        "prompt_tokens": 1,
        "response_tokens": 65535,
        "batch_shape": "packed",
        "attention": "flash",
        "compile": True,
        "logits": "full",
    },
}
"""Row id → its plan, or why it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A run's outcome beside the estimate's verdict, or the reason why there is none."""

    id: str
    outcome: str
    source: str
    verdict: Verdict | None
    reason: str = ""

    @property
    def false_fits(self) -> bool:
        """Says fits of what ended out of memory."""
        said = self.verdict is not None and self.verdict.word == "fits"
        return said and self.outcome == "out of memory"

    @property
    def false_out_of_memory(self) -> bool:
        """Says out of memory of what ran, or what its authors say runs."""
        said = self.verdict is not None and self.verdict.word == "out of memory"
        return said and self.outcome in ("ran", "recommended")


@cache
def judged() -> tuple[Judged, ...]:
    """Every row, in the file's order; a row that nobody mapped raises ``KeyError``."""
    return tuple(_judged(row) for row in json.loads(FILE.read_text("utf-8"))["rows"])


def _judged(row: Mapping[str, Any]) -> Judged:
    told = {"id": row["id"], "outcome": row["outcome"], "source": row["source"]}
    planned = PLANS[row["id"]]
    if isinstance(planned, str):
        return Judged(**told, verdict=None, reason=planned)
    return Judged(**told, verdict=estimate(Plan(**planned)).verdict)
