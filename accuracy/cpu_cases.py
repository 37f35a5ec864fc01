"""Small real configurations of every method and switch, for runs on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from accuracy.tiny import CONFIGS
from planner import catalog
from planner.plan import Plan
from planner.plan.methods import methods

BASE: dict[str, Any] = {
    "model": "tiny/model",
    "gpus": 1,
    "sharding": "none",
    "prompts_per_step": 2,
    "micro_batch_size": 2,
    "prompt_tokens": 25,
    "response_tokens": 23,
    "batch_shape": "full",
    "dtype": "fp32",
    "master_dtype": "none",
    "attention": "eager",
    "logits": "full",
    "optimizer": "adamw-fused",
    "gradient_checkpointing": "none",
}
ENGINE: dict[str, Any] = {"gpus": 2, "rollout": "vllm-separate", "rollout_gpus": 1}
"""Responses come from elsewhere."""
METHODS: dict[str, dict[str, Any]] = {
    "dpo": {"prompts_per_step": 1, "micro_batch_size": 1},
    "grade": {"prompt_tokens": 21, "response_tokens": 4},
}
"""What a method needs that :func:`usual` does not see."""
LAYERS = 2


def usual(method: str) -> dict[str, Any]:
    """What a method's cases have, where they say nothing else: two sequences a step."""
    found = methods()[method]
    if not (found.engines and found.generates):
        return METHODS.get(method, {})
    group = found.least_responses
    spread = {"responses_per_prompt": group, "prompts_per_step": 2 // group}
    return {**ENGINE, **spread, **METHODS.get(method, {})}


@dataclass(frozen=True, slots=True)
class Case:
    """A method on a tiny model, and what of its plan is unlike the others'."""

    method: str
    family: str
    changes: dict[str, Any]

    def __str__(self) -> str:
        """As a test's name."""
        return "-".join([self.method, self.family, *(f"{v}" for v in self.changes.values())])

    @property
    def config(self) -> dict[str, Any]:
        """The model's config.json."""
        given = self.changes
        config = {**CONFIGS[self.family], "model_type": self.family}
        config["n_layer" if "n_layer" in config else "num_hidden_layers"] = given.get(
            "layers", LAYERS
        )
        return {**config, "vocab_size": given.get("vocab", config["vocab_size"])}

    @property
    def configs(self) -> dict[str, dict[str, Any]]:
        """The same model in every role."""
        return dict.fromkeys(("policy", "critic", "reward"), self.config)

    @property
    def plan(self) -> Plan:
        """The plan."""
        changes = {key: v for key, v in self.changes.items() if key not in ("layers", "vocab")}
        config = catalog.encode_config(self.config)
        return Plan(
            **{**BASE, "config": config, "method": self.method, **usual(self.method), **changes}
        )


HALF: dict[str, Any] = {"dtype": "bf16"}
AUTOCAST: dict[str, Any] = {"dtype": "bf16", "master_dtype": "fp32"}
ADAPTERS: dict[str, Any] = {
    "dtype": "bf16",
    "master_dtype": "fp32",
    "finetuning": "lora",
    "lora_rank": 4,
}
CHECKPOINTED: dict[str, Any] = {"gradient_checkpointing": "full"}
SDPA: dict[str, Any] = {"attention": "sdpa"}
PADDED: dict[str, Any] = {"batch_shape": "padded"}
PACKED: dict[str, Any] = {"batch_shape": "packed", "attention": "sdpa"}
JUDGED: dict[str, Any] = {"reward": "model"}
IN_LOSS: dict[str, Any] = {"kl": "loss"}
CACHED: dict[str, Any] = {"reference": "cached-activations"}
DUAL: dict[str, Any] = {"reference": "dual-output"}
ONE_BODY: dict[str, Any] = {"critic": "shared"}
FP32_BASE: dict[str, Any] = {"base_dtype": "fp32"}
AT_ONCE: dict[str, Any] = {"optimizer_step": "in-backward"}
EACH: dict[str, Any] = {"optimizer_step": "micro-batch", "micro_batch_size": 1}
SECOND: dict[str, Any] = {"reference": "frozen-adapter"}
HF: dict[str, Any] = {"gpus": 1, "rollout": "hf", "rollout_gpus": 0, "response_tokens": 6}


def _sft() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "llama", HALF
    yield "llama", {**AUTOCAST, **SDPA}
    yield "qwen2", {**PADDED, **CHECKPOINTED}
    yield "qwen2", {**HALF, "optimizer": "adamw-foreach"}
    yield "qwen3", {**AUTOCAST, **CHECKPOINTED}
    yield "qwen3", {**HALF, "logits": "chunked"}
    yield "qwen3", {"logits": "fused"}
    yield "qwen3", {**HALF, "layers": 9}
    yield "qwen3", {**CHECKPOINTED, "layers": 8, "prompts_per_step": 4}
    yield "mistral", {"optimizer": "sgd", "prompts_per_step": 4}
    yield "mistral", {**HALF, **PACKED, "max_tokens_per_micro_batch": 96}
    yield "phi3", {**HALF, **SDPA, **PADDED}
    yield "gemma2", {**HALF, **PADDED}
    yield "gemma3_text", {**SDPA, **CHECKPOINTED}
    # A CPU keeps a bf16 LayerNorm's mean and scale in bf16, a card in fp32: fp32 throughout here.
    yield "gpt2", {"prompts_per_step": 6, "optimizer": "adamw-foreach"}
    yield "gpt2", {**AUTOCAST, **CHECKPOINTED}
    yield "olmo2", {**HALF, **CHECKPOINTED}
    yield "olmo3", {**SDPA, **PADDED}
    yield "gpt_neox", {"prompts_per_step": 4}
    yield "smollm3", {**HALF, **SDPA}
    yield "glm4", {**CHECKPOINTED}
    yield "starcoder2", {"logits": "response"}
    yield "qwen3_moe", HALF
    yield "mixtral", {**HALF, **CHECKPOINTED}
    yield "qwen3", {**ADAPTERS, "lora_targets": "all-linear"}
    yield "qwen3", {**ADAPTERS, **CHECKPOINTED, "master_dtype": "none"}
    yield "qwen3", {**HALF, **AT_ONCE, "prompts_per_step": 4}
    yield "llama", {**AUTOCAST, **CHECKPOINTED, **AT_ONCE}
    yield "qwen3", {**ADAPTERS, **FP32_BASE}
    yield "qwen2", {**HALF, "logits": "chunked", "chunk_tokens": 20}
    yield "llama", {**CHECKPOINTED, "activation_offload": True}
    yield "qwen2", {**HALF, "offload": "optimizer-between-phases"}
    yield "qwen2", {"offload": "all-between-phases", "prompts_per_step": 4}


def _dpo() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "qwen3", {"logits": "response"}
    yield "llama", {**HALF, **PADDED, "prompts_per_step": 2, "reference": "offloaded"}
    yield "qwen2", {**AUTOCAST, **CHECKPOINTED, "logits": "chunked"}
    yield "qwen3", {**ADAPTERS, "reference": "adapter-disabled", **SDPA}
    yield "mistral", {**HALF, **PACKED, "logits": "fused", "reference": "cached-logprobs"}
    yield "qwen2", {**HALF, **PADDED, "logits": "response", **CACHED, "prompts_per_step": 2}
    yield "llama", {**ADAPTERS, **CACHED, **CHECKPOINTED}
    yield "qwen3", {**ADAPTERS, **DUAL, **SDPA, "logits": "fused", "prompts_per_step": 3}
    yield "gpt2", {**ADAPTERS, "dtype": "fp32", "master_dtype": "none", **DUAL}


def _grpo() -> Iterator[tuple[str, dict[str, Any]]]:
    for logits in ("full", "response", "chunked", "fused"):
        yield "qwen3", {"logits": logits, "entropy": True}
        yield "llama", {**HALF, "logits": logits, "logits_dtype": "bf16", **PADDED}
        yield "qwen2", {**HALF, "logits": logits, "logits_dtype": "fp32", "kl": "reward"}
    yield "qwen3", {**AUTOCAST, "logits": "response", "entropy": True}
    yield "qwen3", {**PACKED, "max_tokens_per_micro_batch": 96, "entropy": True}
    yield "qwen2", {**HALF, **PACKED, "max_tokens_per_micro_batch": 100, "prompts_per_step": 2}
    yield "llama", {**HALF, **PACKED, "logits": "chunked", **JUDGED}
    yield "llama", {"reference": "offloaded", "kl": "reward"}
    yield "llama", {"reference": "cached-logprobs", "logits": "response"}
    yield "llama", {"kl": "none", "reference": "none", **JUDGED}
    yield "qwen3", {**ADAPTERS, "reference": "adapter-disabled", **SDPA}
    yield "qwen3", {**ADAPTERS, "reference": "copy", **CHECKPOINTED, "logits": "response"}
    yield "llama", {**AUTOCAST, **IN_LOSS, **CACHED, "logits": "response"}
    yield "qwen2", {**HALF, **PACKED, **IN_LOSS, **CACHED, "logits": "chunked"}
    yield "qwen3", {**ADAPTERS, **IN_LOSS, **DUAL, "prompts_per_step": 2}
    yield "llama", {**ADAPTERS, **IN_LOSS, **DUAL, **CHECKPOINTED, "layers": 8, "vocab": 50}
    yield "gemma2", {**ADAPTERS, **IN_LOSS, **DUAL, **PADDED, "logits": "response"}
    yield "phi3", {**ADAPTERS, **IN_LOSS, **DUAL, **PACKED, "logits": "chunked"}
    yield "qwen3", {**ADAPTERS, **SECOND, **EACH, "temperature": 0.7}
    yield "llama", {**ADAPTERS, **SECOND, **CHECKPOINTED, "autocast": True, "lora_dropout": 0.1}
    yield "llama", {**ADAPTERS, **FP32_BASE, **CHECKPOINTED, "logits": "fused"}
    yield "llama", {**HALF, "logits": "full", "logits_dtype": "bf16", "temperature": 0.7}
    yield "gemma2", {"logits": "response", **HALF, **JUDGED}
    yield "qwen3", {**HALF, "offload": "parameters-between-phases", **CHECKPOINTED}
    yield "qwen3", {"offload": "all-between-phases", "optimizer": "adamw-foreach"}
    yield "qwen2", {**CHECKPOINTED, "activation_offload": True, "logits": "chunked"}
    yield "mistral", {"prompts_per_step": 3, "logprob_micro_batch_size": 3, **SDPA}
    yield "phi3", {**HALF, "prompts_per_step": 4, "prompts_per_update": 2, "micro_batch_size": 1}
    yield "llama", {**HALF, **HF}
    yield "gemma3_text", {**HF, **PADDED, "logits": "response"}
    yield "qwen3", {**ADAPTERS, **HF, **SDPA, "prompts_per_step": 2}
    yield "qwen3", {**HALF, **CHECKPOINTED, "layers": 8, "logits": "fused"}


def _intuitor() -> Iterator[tuple[str, dict[str, Any]]]:
    for form in ("full", "chunked-vocabulary", "chunked-tokens"):
        for gradient in (False, True):
            yield "qwen3", {"self_certainty": form, "self_certainty_gradient": gradient}
    yield "llama", {**HALF, "logits": "response", "self_certainty": "chunked-tokens"}
    yield "llama", {**HALF, "self_certainty": "chunked-vocabulary", **CHECKPOINTED}
    yield "mistral", {**IN_LOSS, **CACHED, "self_certainty_gradient": True}
    yield "qwen3", {**ADAPTERS, **IN_LOSS, **DUAL, "logits": "fused"}


def _rloo() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "qwen3", {"logits": "response"}
    yield "llama", {**HALF, **PADDED, **JUDGED, "kl": "loss"}
    yield "qwen2", {**ADAPTERS, "reference": "adapter-disabled", **CHECKPOINTED}
    yield "mistral", {**HALF, **PACKED, "kl": "none", "responses_per_prompt": 4}


def _reinforce() -> Iterator[tuple[str, dict[str, Any]]]:
    group = {"reinforce_baseline": "group", "responses_per_prompt": 2}
    yield "qwen3", {"logits": "response"}
    yield "qwen3", {**group, "logits": "response"}
    yield "llama", {**HALF, **PADDED, **JUDGED, "kl": "loss", "prompts_per_step": 4}
    yield "qwen2", {**ADAPTERS, **group, "reference": "adapter-disabled", **CHECKPOINTED}
    yield "mistral", {**HALF, **PACKED, "kl": "none"}
    yield "llama", {**HALF, **HF, **group}


def _ppo() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "qwen3", {"logits": "response"}
    yield "llama", {**HALF, **JUDGED, **PADDED}
    yield "qwen2", {**AUTOCAST, **CHECKPOINTED, "kl": "loss"}
    yield "qwen2", {**PACKED, "logits": "response", **JUDGED}
    yield "qwen3", {**ADAPTERS, "prompts_per_step": 4, **SDPA}
    yield "llama", {**HALF, **IN_LOSS, **CACHED, "logits": "fused"}
    yield "qwen3", {**ADAPTERS, **IN_LOSS, **DUAL, **CHECKPOINTED, "logits": "response"}
    yield "llama", {"offload": "all-between-phases", "prompts_per_step": 4, **JUDGED}
    yield "mistral", {**HALF, **HF, "reference": "offloaded", "logits": "chunked"}


def _shared() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "qwen3", {**ONE_BODY, "entropy": True, "prompts_per_step": 4}
    yield "llama", {**HALF, **ONE_BODY, **PADDED, "logits": "response", **JUDGED}
    yield "qwen2", {**AUTOCAST, **ONE_BODY, **CHECKPOINTED, "logits": "chunked"}
    yield "llama", {**ADAPTERS, **ONE_BODY, "logits": "response", "reference": "adapter-disabled"}
    yield "qwen3", {**ADAPTERS, **ONE_BODY, **PACKED, **IN_LOSS, **DUAL, "logits": "fused"}
    yield "mistral", {**HALF, **ONE_BODY, "offload": "all-between-phases"}


def _grade() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "qwen3", HALF
    yield "llama", {"grade_estimator": "straight-through", "prompts_per_step": 4}
    yield "qwen3", {"grade_top_k": 16, "grade_dense_scatter": True, **PADDED}
    yield "qwen2", {"grade_top_k": 16, "grade_reward_input": "sparse", "grade_kl": "online"}
    yield "llama", {**HALF, "grade_kl": "batch"}
    yield "qwen3", {"grade_kl": "online", "grade_reference_cache": True, "reference": "offloaded"}
    yield "qwen2", {**HALF, "grade_step_checkpointing": True}
    yield "qwen3", {**CHECKPOINTED, **SDPA}
    yield "qwen3", {**ADAPTERS, "grade_kl": "batch", "reference": "adapter-disabled"}
    yield "qwen2", {**HALF, "grade_kl": "online-metric", "grade_reference_cache": True}


SHARDED: dict[str, Any] = {
    "gpus": 8,
    "sharding": "fsdp2",
    "prompts_per_step": 16,
    "micro_batch_size": 2,
    "dtype": "bf16",
    "master_dtype": "fp32",
}


def _sharded() -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield "sft", "llama", SHARDED
    yield "sft", "qwen3", {**SHARDED, **CHECKPOINTED, "prompts_per_step": 32, "layers": 5}
    yield "sft", "qwen2", {**SHARDED, "reshard_after_forward": False, "reduce_dtype": "bf16"}
    engine = {**SHARDED, "gpus": 16, "rollout_gpus": 8, "gpus_per_node": 16}
    yield "grpo", "qwen3", {**engine, **CHECKPOINTED, "logits": "response"}
    yield "ppo", "llama", {**engine, **JUDGED}
    adapters = {"finetuning": "lora", "lora_rank": 4, "reference": "adapter-disabled"}
    yield "grpo", "qwen3", {**engine, **adapters, **SDPA}
    yield "grpo", "qwen3", {**engine, **adapters, **SECOND, **FP32_BASE}
    yield "sft", "llama", {**SHARDED, **AT_ONCE}
    yield "ppo", "llama", {**engine, **ONE_BODY, "logits": "response"}
    yield "ppo", "qwen3", {**engine, **adapters, **ONE_BODY, **CHECKPOINTED}
    yield "grpo", "llama", {**engine, **IN_LOSS, **CACHED}
    yield "grpo", "llama", {**engine, **adapters, **IN_LOSS, **DUAL, **CHECKPOINTED}
    yield "grpo", "qwen3", {**engine, **adapters, **IN_LOSS, **CACHED}


CASES: tuple[Case, ...] = tuple(
    Case(method, family, changes)
    for method, found in (
        ("sft", _sft()),
        ("dpo", _dpo()),
        ("grpo", _grpo()),
        ("intuitor", _intuitor()),
        ("ppo", _ppo()),
        ("ppo", _shared()),
        ("rloo", _rloo()),
        ("reinforce++", _reinforce()),
        ("grade", _grade()),
    )
    for family, changes in found
) + tuple(Case(*found) for found in _sharded())
