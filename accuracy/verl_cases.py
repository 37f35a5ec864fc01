"""Small configurations of verl's engines, run for real on a CPU and on tensors without data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planner import catalog
from planner.plan import Plan

CONFIG: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 2048,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
TIED: dict[str, Any] = {**CONFIG, "tie_word_embeddings": True}
BASE: dict[str, Any] = {
    "model": "tiny/model",
    "framework": "verl",
    "gpus": 1,
    "prompts_per_step": 2,
    "responses_per_prompt": 2,
    "micro_batch_size": 2,
    "logprob_micro_batch_size": 2,
    "prompt_tokens": 96,
    "response_tokens": 64,
    "kl": "none",
    # They run on a processor, which has no kernels of FlashAttention.
    "attention": "sdpa",
}
PACKED: dict[str, Any] = {"batch_shape": "packed"}
PADDED: dict[str, Any] = {"batch_shape": "padded"}
FULL: dict[str, Any] = {"batch_shape": "full"}
KL: dict[str, Any] = {"kl": "loss"}
ENTROPY: dict[str, Any] = {"entropy": True}
LORA: dict[str, Any] = {"finetuning": "lora", "lora_rank": 4}
HALF: dict[str, Any] = {"master_dtype": "none"}
WIDE: dict[str, Any] = {"dtype": "fp32", "master_dtype": "none"}
KEPT: dict[str, Any] = {"gradient_checkpointing": "none"}
BUDGET: dict[str, Any] = {**PACKED, "max_tokens_per_micro_batch": 400, "prompts_per_step": 4}
"""Two rows and a half."""
ALONE: dict[str, Any] = {"micro_batch_size": 1, "logprob_micro_batch_size": 1}
"""A row that is one sequence, packed or not padded by any other: transformers makes no mask."""
CHUNKED: dict[str, Any] = {"logits": "chunked", "logits_dtype": "fp32"}
FP16: dict[str, Any] = {"dtype": "fp16", "optimizer": "adamw-foreach"}
FLASH: dict[str, Any] = {"attention": "flash"}
ONE: dict[str, Any] = {"responses_per_prompt": 1, "prompts_per_step": 4}


WHOLE = {True: "Qwen/Qwen2.5-1.5B", False: "Qwen/Qwen2.5-7B"}
"""The model that the closed form is compared with, by whether its embeddings are tied."""
GPUS, SCALE = 8, 8
"""How many there are in that comparison, and how many times a case's lengths its rows have."""


@dataclass(frozen=True, slots=True)
class Case:
    """A method, and what of its plan is unlike the others'."""

    name: str
    method: str
    changes: dict[str, Any]
    config: dict[str, Any]

    def __str__(self) -> str:
        """As a test's name."""
        return self.name

    @property
    def configs(self) -> dict[str, dict[str, Any]]:
        """Every model's config.json."""
        return {role: self.config for role in ("policy", "critic")}

    @property
    def plan(self) -> Plan:
        """The plan."""
        config = catalog.encode_config(self.config)
        return Plan(**{**BASE, "config": config, "method": self.method, **self.changes})

    @property
    def whole(self) -> Plan:
        """The same for a model of the catalog on eight GPUs, with longer rows."""
        told = {**BASE, "method": self.method, **self.changes, "gpu": "h100-80gb", "gpus": GPUS}
        told["model"] = WHOLE[self.config["tie_word_embeddings"]]
        told["prompts_per_step"] *= GPUS
        lengths = ("prompt_tokens", "response_tokens", "max_tokens_per_micro_batch")
        return Plan(**told | {name: SCALE * told[name] for name in lengths if name in told})


def _case(name: str, method: str, *changes: dict[str, Any], tied: bool = False) -> Case:
    together = {key: value for each in changes for key, value in each.items()}
    return Case(name, method, together, TIED if tied else CONFIG)


CASES = (
    _case("GRPO, packed", "grpo", PACKED),
    _case("GRPO, packed, KL", "grpo", PACKED, KL),
    _case("GRPO, packed, one sequence, KL, kept", "grpo", PACKED, ALONE, KL, KEPT),
    _case("GRPO, packed, entropy", "grpo", PACKED, ENTROPY),
    _case("GRPO, packed, KL, entropy, kept", "grpo", PACKED, KL, ENTROPY, KEPT),
    _case("GRPO, padded", "grpo", PADDED),
    _case("GRPO, padded, KL, entropy", "grpo", PADDED, KL, ENTROPY),
    _case("GRPO, padded, one row, KL, kept", "grpo", PADDED, ALONE, KL, KEPT),
    _case("GRPO, full, kept", "grpo", FULL, KEPT),
    _case("GRPO, packed, tied, KL", "grpo", PACKED, KL, tied=True),
    _case("GRPO, bf16 weights", "grpo", PACKED, KL, HALF),
    _case("GRPO, fp32", "grpo", PACKED, ENTROPY, WIDE),
    _case("GRPO, LoRA, KL", "grpo", PACKED, KL, LORA),
    _case("GRPO, LoRA, padded, kept", "grpo", PADDED, LORA, KEPT),
    _case("PPO, packed", "ppo", PACKED, ONE),
    _case("PPO, KL in the reward", "ppo", PACKED, ONE, {"kl": "reward"}),
    _case("PPO, padded, kept", "ppo", PADDED, ONE, KEPT),
    _case("GRPO, budget", "grpo", BUDGET),
    _case("GRPO, budget, KL, entropy", "grpo", BUDGET, KL, ENTROPY),
    _case("GRPO, budget, LoRA, kept", "grpo", BUDGET, LORA, KEPT),
    _case("GRPO, budget, padded, KL", "grpo", BUDGET, PADDED, KL),
    _case("GRPO, budget of one row", "grpo", BUDGET, {"max_tokens_per_micro_batch": 160}),
    _case("GRPO, one budget", "grpo", BUDGET, {"max_tokens_per_micro_batch": 4000}, tied=True),
    _case("PPO, budget", "ppo", BUDGET, {**ONE, "prompts_per_step": 8}),
    _case("GRPO, chunks, KL", "grpo", PACKED, CHUNKED, KL, tied=True),
    _case("GRPO, chunks, budget, entropy", "grpo", BUDGET, CHUNKED, ENTROPY, tied=True),
    _case("GRPO, fp16", "grpo", PACKED, FP16, KL),
    _case("GRPO, budget, flash", "grpo", BUDGET, FLASH, KL),
    _case("PPO, flash", "ppo", PACKED, FLASH, ONE),
)
LIVE = {
    "GRPO, padded, KL, entropy": "gpu",
    "GRPO, budget, KL, entropy": "gpu",
}
"""Names of those that every run of the tests repeats, and whose kernels meet the vocabulary."""
