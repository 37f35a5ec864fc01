"""How the choices of a field read, and which of them cannot be planned yet.

Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from planner import catalog
from planner.plan import choices, length_words
from planner.plan.facts import KNOWN_TORCH
from planner.plan.frameworks import framework_named
from planner.plan.methods import methods, variations
from planner.plan.rules import UNMODELLED
from planner.wording.display import say

NAMES: Mapping[tuple[str, str], str] = {
    ("finetuning", "full"): "Full",
    ("finetuning", "lora"): "LoRA",
    ("finetuning", "qlora"): "QLoRA",
    ("kv_cache_dtype", "auto"): "compute dtype",
    ("base_dtype", "compute"): "compute dtype",
    ("rollout_quantization", "none"): "none: the compute dtype",
    ("sharding", "ddp"): "DDP",
    ("sharding", "zero1"): "ZeRO-1",
    ("sharding", "zero2"): "ZeRO-2",
    ("sharding", "zero3"): "ZeRO-3",
    ("sharding", "fsdp1"): "FSDP1",
    ("sharding", "fsdp2"): "FSDP2",
    ("optimizer", "adamw-fused"): "AdamW, fused",
    ("optimizer", "adamw-foreach"): "AdamW, foreach",
    ("optimizer", "adamw-8bit"): "AdamW, 8-bit",
    ("optimizer", "paged-adamw-8bit"): "AdamW, 8-bit paged",
    ("optimizer", "sgd"): "SGD",
    ("optimizer_step", "update"): "after each update",
    ("optimizer_step", "micro-batch"): "after each micro-batch",
    ("optimizer_step", "in-backward"): "in the backward",
    ("offload", "parameters"): "weights",
    ("offload", "all"): "weights and optimizer",
    ("offload", "optimizer-between-phases"): "optimizer, between phases",
    ("offload", "parameters-between-phases"): "weights, between phases",
    ("offload", "all-between-phases"): "both, between phases",
    ("attention", "sdpa"): "SDPA",
    ("attention", "flash"): "FlashAttention-2",
    ("attention", "flash_attention_3"): "FlashAttention-3",
    ("logits", "full"): "full logits",
    ("logits", "response"): "logits of the response",
    ("logits", "chunked"): "chunked",
    ("logits", "fused"): "fused linear cross-entropy",
    ("kl", "loss"): "in the loss",
    ("kl", "reward"): "in the reward",
    ("reference", "copy"): "copy of the model",
    ("reference", "offloaded"): "copy, offloaded",
    ("reference", "adapter-disabled"): "adapter disabled",
    ("reference", "frozen-adapter"): "frozen second adapter",
    ("reference", "cached-logprobs"): "cached log-probs",
    ("reference", "cached-activations"): "cached activations",
    ("reference", "dual-output"): "dual output",
    ("reward", "model"): "reward model",
    ("rollout", "in-graph"): "in the graph",
    ("rollout", "hf"): "Transformers' generate",
    ("rollout", "vllm-colocated"): "vLLM, colocated",
    ("rollout", "vllm-separate"): "vLLM, GPUs of its own",
    ("rollout_overlap", "one-step-off"): "one step off policy",
    ("empty_cache", "between-phases"): "between phases",
    ("empty_cache", "every-step"): "every step",
}
"""What a value is called where its own word is no reader's."""

options = choices
"""The values a field of choices can have; empty for other fields."""


def versions(field: str, framework: str) -> tuple[str, ...]:
    """Known versions of the framework, or of PyTorch."""
    return KNOWN_TORCH if field == "torch_version" else framework_named(framework).versions


@cache
def not_yet(field: str, value: str) -> bool:
    """Whether the value is one whose memory nobody has modelled yet."""
    plan: Any = SimpleNamespace(**{field: value})
    return any(rule.field == field and bool(rule.broken(plan)) for rule in UNMODELLED)


def name(field: str, value: str) -> str:
    """A choice as the list shows it."""
    text = called(field, value)
    return f"{text} (not modelled yet)" if not_yet(field, value) else text


def called(field: str, value: str) -> str:
    """A choice as a sentence calls it."""
    if field in ("method", "variation") and value != "none":
        owner = variations().get(value)
        return (owner.variations[value] if owner else methods()[value]).label
    if field == "framework":
        return framework_named(value).label
    return NAMES.get((field, value), value)


@cache
def card_names() -> Mapping[str, str]:
    """Every card of the catalog by its key."""
    return {card.key: card.name for card in catalog.gpus()}


def spoken(field: str, value: Any) -> str:
    """A field's value as a sentence says it: a choice as its list shows it."""
    if field == "length_distribution":
        return length_words.named(value)
    if field == "gpu":
        return card_names().get(value, value)
    return name(field, value) if options(field) else say(value)
