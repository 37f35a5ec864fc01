"""Small configurations of TRL's trainers, run for real on a CPU and on tensors without data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from accuracy.tiny import CONFIGS
from planner import catalog
from planner.plan import Plan

QWEN: dict[str, Any] = {
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
WIDE = {**QWEN, "hidden_size": 512, "intermediate_size": 1408}
"""Most of its weights are above the size below which ZeRO-3 keeps them whole."""
SMALL = {"vocab_size": 2000, "num_hidden_layers": 2}
MODELS: dict[str, dict[str, Any]] = {
    "qwen2": QWEN,
    "qwen2, wide": WIDE,
    "qwen2, deep": {**WIDE, "num_hidden_layers": 8},
    "qwen2, tied": {**QWEN, "tie_word_embeddings": True},
    "wide vocabulary": {**QWEN, **SMALL, "vocab_size": 16_384},
    **{
        name: {**CONFIGS[name], "model_type": name, **SMALL}
        for name in ("llama", "qwen3", "gemma2", "olmoe", "mixtral")
    },
}
"""config.json of the models of the real runs."""
WHOLE = {
    "llama": "meta-llama/Llama-3.1-8B",
    "qwen3": "Qwen/Qwen3-8B",
    "gemma2": "google/gemma-2-9b",
    "olmoe": "allenai/OLMoE-1B-7B-0924",
    "mixtral": "mistralai/Mixtral-8x7B-v0.1",
    "wide vocabulary": "Qwen/Qwen2.5-7B",
}
"""The model, of another's size, that the closed form is compared with."""
SCALE = 16
"""How many times a case's lengths its rows have there."""
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
LONG: dict[str, Any] = {"prompt_tokens": 24, "response_tokens": 200}
SHORT: dict[str, Any] = {"prompt_tokens": 120, "response_tokens": 8}
DDP: dict[str, Any] = {"gpus": 2, "sharding": "ddp", "reduce_dtype": "fp32", "prompts_per_step": 8}
FSDP2: dict[str, Any] = {"gpus": 1, "sharding": "fsdp2"}
"""Of one process: of more, gloo's own threads free what they were given, unseen."""
WHOLE_GPUS = 8
"""Of a sharded case, in its comparison with the closed form."""
PACKED: dict[str, Any] = {"batch_shape": "packed"}
FLASH: dict[str, Any] = {"attention": "flash"}
EIGHT_BIT: dict[str, Any] = {"optimizer": "adamw-8bit"}
FP16: dict[str, Any] = {"dtype": "fp16", "master_dtype": "fp32"}
LIGER: dict[str, Any] = {"liger": True}
CACHED: dict[str, Any] = {"reference": "cached-logprobs"}
OFFLOADED: dict[str, Any] = {"activation_offload": True, **CHECKPOINTED, **LONG}
STATE: dict[str, Any] = {**FSDP2, "offload": "all"}
ROWS: dict[str, Any] = {"micro_batch_size": 4, "prompts_per_step": 4}


@dataclass(frozen=True, slots=True)
class Case:
    """A method, what of its plan is unlike the others', and which small model it trains."""

    name: str
    method: str
    changes: dict[str, Any]
    model: str = "qwen2"
    head: Literal["gpu", "cpu"] = "cpu"
    """Whose branch of TRL's head, of optimizers and of clipping runs, on both sides."""

    def __str__(self) -> str:
        """As a test's name."""
        return self.name

    @property
    def config(self) -> dict[str, Any]:
        """The model's config.json."""
        return MODELS[self.model]

    @property
    def plan(self) -> Plan:
        """The plan."""
        config = catalog.encode_config(self.config)
        return Plan(**{**BASE, "config": config, "method": self.method, **self.changes})

    @property
    def whole(self) -> Plan:
        """The same for a model of the catalog, where no constant of TRL's head hides the layers."""
        told = {**BASE, "method": self.method, **self.changes, "gpu": "h100-80gb"}
        told["model"] = WHOLE.get(self.model, "Qwen/Qwen2.5-1.5B")
        told |= {name: SCALE * told[name] for name in ("prompt_tokens", "response_tokens")}
        if told["sharding"] != "none":
            told["prompts_per_step"] *= WHOLE_GPUS // told["gpus"]
            told["gpus"] = WHOLE_GPUS
        return Plan(**told)


CASES = (
    Case("SFT", "sft", {}),
    Case("SFT, accumulated, checkpointed", "sft", {**CHECKPOINTED, "prompts_per_step": 6}),
    Case("SFT, bf16 weights", "sft", HALF),
    Case("SFT, autocast", "sft", AUTOCAST),
    Case(
        "SFT, eager, foreach", "sft",
        {"attention": "eager", "optimizer": "adamw-foreach"}, head="gpu",
    ),
    Case("SFT, LoRA, checkpointed", "sft", {**AUTOCAST, **ADAPTERS, **CHECKPOINTED}),
    Case("SFT, padded, SGD", "sft", {**PADDED, "optimizer": "sgd"}),
    Case("SFT, tied, autocast", "sft", AUTOCAST, "qwen2, tied", head="gpu"),
    Case("SFT, long, checkpointed", "sft", {**AUTOCAST, **CHECKPOINTED, **LONG}),
    Case("SFT, four rows, padded", "sft", {**AUTOCAST, **ROWS, **PADDED}),
    Case("SFT, wide vocabulary, bf16", "sft", {**HALF, **LONG}, "wide vocabulary", head="gpu"),
    Case("SFT, wide vocabulary, LoRA", "sft", {**AUTOCAST, **ADAPTERS}, "wide vocabulary"),
    Case(
        "SFT, LoRA of attention", "sft", {**AUTOCAST, **ADAPTERS, "lora_targets": "q_proj,v_proj"}
    ),
    Case("SFT, LoRA in fp32, accumulated", "sft", {**ADAPTERS, "prompts_per_step": 6}),
    Case(
        "SFT, Llama, autocast, foreach", "sft",
        {**AUTOCAST, "optimizer": "adamw-foreach"}, "llama", head="gpu",
    ),
    Case("SFT, Gemma 2, eager", "sft", {"attention": "eager"}, "gemma2"),
    Case("SFT, mixture", "sft", {}, "olmoe"),
    Case("SFT, mixture, autocast", "sft", AUTOCAST, "olmoe", head="gpu"),
    Case("SFT, Mixtral, checkpointed", "sft", CHECKPOINTED, "mixtral"),
    Case("GRPO", "grpo", {**HF, "kl": "none"}),
    Case("GRPO, KL", "grpo", {**ENGINE, **KL}),
    Case("GRPO, autocast", "grpo", {**ENGINE, **AUTOCAST, "kl": "none"}, head="gpu"),
    Case("GRPO, KL, autocast", "grpo", {**ENGINE, **KL, **AUTOCAST}),
    Case("GRPO, KL, autocast, checkpointed", "grpo", {**HF, **KL, **AUTOCAST, **CHECKPOINTED}),
    Case("GRPO, LoRA, KL", "grpo", {**ENGINE, **KL, **AUTOCAST, **ADAPTERS}),
    Case("GRPO, two updates, entropy", "grpo", {**TWICE, **KL, "entropy": True}),
    Case("GRPO, KL, padded", "grpo", {**ENGINE, **KL, **PADDED}),
    Case("GRPO, bf16 weights, KL", "grpo", {**ENGINE, **KL, **HALF}),
    Case(
        "GRPO, long, checkpointed", "grpo",
        {**ENGINE, **KL, **AUTOCAST, **CHECKPOINTED, **LONG}, head="gpu",
    ),
    Case("GRPO, long prompts", "grpo", {**ENGINE, **AUTOCAST, "kl": "none", **SHORT}),
    Case("GRPO, tied, KL, padded", "grpo", {**HF, **KL, **AUTOCAST, **PADDED}, "qwen2, tied"),
    Case(
        "GRPO, LoRA, checkpointed", "grpo",
        {**HF, **AUTOCAST, **ADAPTERS, **CHECKPOINTED, "kl": "none"},
    ),
    Case(
        "GRPO, accumulated, entropy", "grpo",
        {**ENGINE, **KL, "prompts_per_step": 6, "entropy": True},
    ),
    Case(
        "GRPO, Qwen3, foreach", "grpo",
        {**ENGINE, **KL, **AUTOCAST, "optimizer": "adamw-foreach"}, "qwen3", head="gpu",
    ),
    Case("GRPO, mixture, KL", "grpo", {**ENGINE, **KL, **AUTOCAST}, "olmoe"),
    Case("GRPO, wide vocabulary", "grpo", {**HF, **KL, **AUTOCAST, **LONG}, "wide vocabulary"),
    Case("RLOO, KL", "rloo", {**HF, "kl": "reward"}),
    Case("RLOO, LoRA", "rloo", {**HF, **AUTOCAST, **ADAPTERS}),
    Case(
        "RLOO, KL, autocast, checkpointed", "rloo",
        {**ENGINE, **AUTOCAST, **CHECKPOINTED, "kl": "reward"},
    ),
    Case("RLOO, bf16 weights, padded", "rloo", {**HF, **HALF, **PADDED, "kl": "none"}),
    Case("RLOO, two updates", "rloo", {**TWICE, **AUTOCAST, "kl": "none"}, head="gpu"),
    Case(
        "RLOO, tied, KL, LoRA", "rloo",
        {**ENGINE, **AUTOCAST, **ADAPTERS, "kl": "reward"}, "qwen2, tied",
    ),
    Case("DPO", "dpo", PAIRS),
    Case("DPO, autocast", "dpo", {**PAIRS, **AUTOCAST}),
    Case("DPO, LoRA", "dpo", {**PAIRS, **AUTOCAST, **ADAPTERS}),
    Case("DPO, LoRA, checkpointed", "dpo", {**PAIRS, **AUTOCAST, **ADAPTERS, **CHECKPOINTED}),
    Case("DPO, bf16 weights, two pairs", "dpo", HALF, head="gpu"),
    Case("DPO, long, checkpointed", "dpo", {**PAIRS, **AUTOCAST, **CHECKPOINTED, **LONG}),
    Case("DPO, tied, padded", "dpo", {**AUTOCAST, **PADDED}, "qwen2, tied", head="gpu"),
    Case("DPO, Llama, accumulated", "dpo", {**AUTOCAST, "prompts_per_step": 6}, "llama"),
    Case("DPO, mixture", "dpo", {**PAIRS, **AUTOCAST}, "olmoe"),
    Case("DPO, wide vocabulary, SGD", "dpo", {**PAIRS, "optimizer": "sgd"}, "wide vocabulary"),
    Case("SFT, DDP", "sft", {**DDP, **AUTOCAST}),
    Case("DPO, LoRA, DDP, checkpointed", "dpo", {**DDP, **AUTOCAST, **ADAPTERS, **CHECKPOINTED}),
    Case("GRPO, KL, DDP", "grpo", {**HF, **KL, **DDP, "prompts_per_step": 4}),
    Case("SFT, FSDP2", "sft", {**FSDP2, **AUTOCAST}),
    Case(
        "SFT, FSDP2, tied, accumulated", "sft",
        {**FSDP2, **AUTOCAST, **CHECKPOINTED, "prompts_per_step": 6}, "qwen2, tied",
    ),
    Case("SFT, FSDP2, Llama, bf16 weights", "sft", {**FSDP2, **HALF}, "llama", head="gpu"),
    Case(
        "GRPO, KL, FSDP2, checkpointed", "grpo",
        {**FSDP2, **HF, **KL, **AUTOCAST, **CHECKPOINTED},
    ),
    Case("DPO, FSDP2", "dpo", {**FSDP2, **AUTOCAST}, "qwen3"),
    Case("DPO, LoRA, FSDP2", "dpo", {**FSDP2, **AUTOCAST, **ADAPTERS}),
    Case("SFT, packed", "sft", PACKED),
    Case("SFT, packed, flash, autocast", "sft", {**PACKED, **FLASH, **AUTOCAST}, head="gpu"),
    Case(
        "SFT, packed, flash, LoRA, checkpointed", "sft",
        {**PACKED, **FLASH, **AUTOCAST, **ADAPTERS, **CHECKPOINTED}, "llama",
    ),
    Case(
        "SFT, packed, flash, accumulated", "sft",
        {**PACKED, **FLASH, **HALF, "prompts_per_step": 6}, "qwen2, tied",
    ),
    Case("SFT, packed, FSDP2", "sft", {**PACKED, **FLASH, **FSDP2, **AUTOCAST}),
    Case("GRPO, KL, flash, padded", "grpo", {**ENGINE, **KL, **AUTOCAST, **FLASH, **PADDED}),
    Case("DPO, flash", "dpo", {**HALF, **FLASH}),
    Case("SFT, 8-bit AdamW", "sft", EIGHT_BIT),
    Case("SFT, 8-bit AdamW, tied, autocast", "sft", {**EIGHT_BIT, **AUTOCAST}, "qwen2, tied"),
    Case("DPO, LoRA, 8-bit AdamW", "dpo", {**EIGHT_BIT, **AUTOCAST, **ADAPTERS}),
    Case(
        "GRPO, KL, paged AdamW", "grpo",
        {**ENGINE, **KL, **AUTOCAST, "optimizer": "paged-adamw-8bit"},
    ),
    Case("SFT, fp16", "sft", FP16),
    Case("SFT, fp16, 8-bit AdamW", "sft", {**FP16, **EIGHT_BIT, **CHECKPOINTED}, "llama"),
    Case("DPO, LoRA, fp16", "dpo", {**FP16, **ADAPTERS}),
    Case(
        "GRPO, KL, fp16, foreach", "grpo",
        {**ENGINE, **KL, **FP16, "optimizer": "adamw-foreach"}, head="gpu",
    ),
    Case(
        "GRPO, KL, fp16, FSDP2", "grpo",
        {**FSDP2, **HF, **KL, **FP16, "reduce_dtype": "fp16"},
    ),
    Case("SFT, Liger", "sft", LIGER),
    Case("SFT, Liger, Llama, autocast", "sft", {**LIGER, **AUTOCAST}, "llama", head="gpu"),
    Case("SFT, Liger, Gemma 2", "sft", {**LIGER, **HALF, "attention": "eager"}, "gemma2"),
    Case(
        "DPO, LoRA, Liger, checkpointed", "dpo",
        {**LIGER, **AUTOCAST, **ADAPTERS, **CHECKPOINTED},
    ),
    Case("GRPO, KL, Liger", "grpo", {**ENGINE, **KL, **LIGER, **AUTOCAST}, "qwen3"),
    Case("DPO, cached log-probs", "dpo", {**CACHED, **AUTOCAST}),
    Case("DPO, LoRA, cached log-probs", "dpo", {**CACHED, **AUTOCAST, **ADAPTERS}),
    Case("SFT, activations offloaded", "sft", {**OFFLOADED, **HALF}),
    Case(
        "SFT, LoRA, activations offloaded", "sft",
        {**OFFLOADED, **AUTOCAST, **ADAPTERS, "prompts_per_step": 6}, head="gpu",
    ),
    Case("DPO, LoRA, activations offloaded", "dpo", {**OFFLOADED, **PAIRS, **AUTOCAST, **ADAPTERS}),
    Case("SFT, FSDP2, activations offloaded", "sft", {**OFFLOADED, **FSDP2, **AUTOCAST}),
    Case(
        "GRPO, KL, FSDP2, activations offloaded", "grpo",
        {**OFFLOADED, **FSDP2, **HF, **KL, **AUTOCAST}, "qwen3",
    ),
    Case("SFT, state offloaded", "sft", {**STATE, **AUTOCAST}),
    Case(
        "DPO, LoRA, state offloaded, checkpointed", "dpo",
        {**STATE, **PAIRS, **AUTOCAST, **ADAPTERS, **CHECKPOINTED},
    ),
    Case(
        "GRPO, KL, state and activations offloaded", "grpo",
        {**STATE, **OFFLOADED, **HF, **KL, **HALF, "reference": "offloaded"}, "qwen2, tied",
    ),
)
FOUR_BIT = tuple(
    Case(f"{method.upper()}, QLoRA", method, {**changes, "finetuning": "qlora", **CHECKPOINTED})
    for method, changes in (
        ("sft", {"dtype": "bf16"}),
        ("grpo", {**ENGINE, **KL, "dtype": "bf16"}),
        ("dpo", {**PAIRS, "dtype": "bf16"}),
    )
)
"""Of 4-bit weights only dry runs and the closed form, since their package computes on cards."""
LIVE = (
    "SFT, eager, foreach",
    "SFT, LoRA, checkpointed",
    "GRPO, KL",
    "GRPO, autocast",
    "RLOO, KL",
    "DPO, autocast",
)
"""Names of those that every run of the tests repeats."""
