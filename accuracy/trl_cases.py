"""Small configurations of TRL's trainers, run for real on a CPU and on tensors without data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planner import catalog
from planner.plan import Plan

CONFIG: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 4096,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
BASE: dict[str, Any] = {
    "model": "tiny/model",
    "framework": "trl",
    "gpus": 1,
    "sharding": "none",
    "prompts_per_step": 4,
    "micro_batch_size": 2,
    "prompt_tokens": 40,
    "response_tokens": 24,
    "batch_shape": "full",
    "dtype": "fp32",
    "attention": "sdpa",
    "optimizer": "adamw-fused",
    "gradient_checkpointing": "none",
}
ENGINE: dict[str, Any] = {
    "gpus": 2,
    "rollout": "vllm-separate",
    "rollout_gpus": 1,
    "responses_per_prompt": 2,
    "prompts_per_step": 2,
}
HF: dict[str, Any] = {"rollout": "hf", "responses_per_prompt": 2, "prompts_per_step": 2}
AUTOCAST: dict[str, Any] = {"dtype": "bf16", "master_dtype": "fp32"}
HALF: dict[str, Any] = {"dtype": "bf16", "master_dtype": "none"}
ADAPTERS: dict[str, Any] = {"finetuning": "lora", "lora_rank": 4, "lora_targets": "all-linear"}
KL: dict[str, Any] = {"kl": "loss"}
PADDED: dict[str, Any] = {"batch_shape": "padded"}
TWICE: dict[str, Any] = {**HF, "prompts_per_step": 4, "prompts_per_update": 2}
PAIRS: dict[str, Any] = {"micro_batch_size": 1}
CHECKPOINTED: dict[str, Any] = {"gradient_checkpointing": "full"}


@dataclass(frozen=True, slots=True)
class Case:
    """A method, and what of its plan is unlike the others'."""

    name: str
    method: str
    changes: dict[str, Any]

    def __str__(self) -> str:
        """As a test's name."""
        return self.name

    @property
    def config(self) -> dict[str, Any]:
        """The model's config.json."""
        return CONFIG

    @property
    def plan(self) -> Plan:
        """The plan."""
        config = catalog.encode_config(self.config)
        return Plan(**{**BASE, "config": config, "method": self.method, **self.changes})


CASES = (
    Case("SFT", "sft", {}),
    Case("SFT, accumulated, checkpointed", "sft", {**CHECKPOINTED, "prompts_per_step": 6}),
    Case("SFT, bf16 weights", "sft", HALF),
    Case("SFT, autocast", "sft", AUTOCAST),
    Case("SFT, eager, foreach", "sft", {"attention": "eager", "optimizer": "adamw-foreach"}),
    Case("SFT, LoRA, checkpointed", "sft", {**AUTOCAST, **ADAPTERS, **CHECKPOINTED}),
    Case("SFT, padded, SGD", "sft", {**PADDED, "optimizer": "sgd"}),
    Case("GRPO", "grpo", {**HF, "kl": "none"}),
    Case("GRPO, KL", "grpo", {**ENGINE, **KL}),
    Case("GRPO, autocast", "grpo", {**ENGINE, **AUTOCAST, "kl": "none"}),
    Case("GRPO, KL, autocast", "grpo", {**ENGINE, **KL, **AUTOCAST}),
    Case("GRPO, KL, autocast, checkpointed", "grpo", {**HF, **KL, **AUTOCAST, **CHECKPOINTED}),
    Case("GRPO, LoRA, KL", "grpo", {**ENGINE, **KL, **AUTOCAST, **ADAPTERS}),
    Case("GRPO, two updates, entropy", "grpo", {**TWICE, **KL, "entropy": True}),
    Case("RLOO, KL", "rloo", {**HF, "kl": "reward"}),
    Case("RLOO, LoRA", "rloo", {**HF, **AUTOCAST, **ADAPTERS}),
    Case("DPO", "dpo", PAIRS),
    Case("DPO, autocast", "dpo", {**PAIRS, **AUTOCAST}),
    Case("GRPO, KL, padded", "grpo", {**ENGINE, **KL, **PADDED}),
    Case("DPO, LoRA", "dpo", {**PAIRS, **AUTOCAST, **ADAPTERS}),
    Case("DPO, LoRA, checkpointed", "dpo", {**PAIRS, **AUTOCAST, **ADAPTERS, **CHECKPOINTED}),
)
LIVE = {
    "SFT": "gpu",
    "SFT, LoRA, checkpointed": "cpu",
    "GRPO, KL": "cpu",
    "GRPO, autocast": "gpu",
    "RLOO, KL": "cpu",
    "DPO, autocast": "cpu",
}
"""Names of those that every run of the tests repeats, and whose branch of TRL's head they take."""
