"""What cannot be of dtypes, and what kernels and rows ask for."""

from __future__ import annotations

from planner.plan.fields import FLASH
from planner.plan.rules.asked import half
from planner.rule import NOT_YET, Rule
from planner.values.sharding import sharding_of

RULES: tuple[Rule, ...] = (
    Rule(
        "master_dtype",
        lambda p: p.dtype == "fp32" and p.master_dtype != "none",
        "With dtype fp32 the weights are fp32 already.",
        "Set master_dtype to none.",
    ),
    Rule(
        "autocast",
        lambda p: p.autocast and p.dtype == "fp32",
        "Autocast computes in half precision.",
        "Set dtype to bf16, or autocast to false.",
    ),
    Rule(
        "chunk_compile",
        lambda p: p.chunk_compile and p.dtype == "fp32",
        f"chunk_compile with dtype fp32 {NOT_YET}",
        "Set chunk_compile to false, or dtype to bf16.",
    ),
    Rule(
        "base_dtype",
        lambda p: p.base_dtype == "fp32" and sharding_of(p).zero > 0,
        "DeepSpeed keeps all weights in the compute dtype.",
        "Set base_dtype to compute, or sharding to fsdp2.",
    ),
    Rule(
        "base_dtype",
        lambda p: (
            p.base_dtype == "fp32"
            and p.finetuning == "lora"
            and p.master_dtype == "none"
            and p.dtype != "fp32"
        ),
        "Adapters of fp32 weights are fp32.",
        "Set master_dtype to fp32, or base_dtype to compute.",
    ),
    Rule(
        "gradient_dtype",
        lambda p: p.master_dtype == "none" and p.gradient_dtype != p.dtype,
        "Without a master copy, gradients have the dtype of their weights.",
        "Set gradient_dtype to the value of dtype.",
    ),
    Rule(
        "gradient_dtype",
        lambda p: (
            p.master_dtype == "fp32" and p.gradient_dtype != "fp32" and not sharding_of(p).zero
        ),
        "Gradients of fp32 weights are fp32 (only ZeRO keeps them in half precision).",
        "Set gradient_dtype to fp32.",
    ),
    Rule(
        "gradient_dtype",
        lambda p: p.gradient_dtype not in (p.dtype, "fp32"),
        "Gradients are stored in the compute dtype or in fp32.",
        "Set gradient_dtype to one of the two.",
    ),
    Rule(
        "logits_dtype",
        lambda p: p.dtype == "fp32" and p.logits_dtype != "fp32",
        "With dtype fp32 the logits are fp32.",
        "Set logits_dtype to fp32.",
    ),
    Rule(
        "attention",
        lambda p: p.attention in FLASH and not half(p),
        "Flash attention computes in half precision only.",
        "Set attention to sdpa, or dtype to bf16.",
    ),
    Rule(
        "rollout_quantization",
        lambda p: p.rollout_quantization == "fp8" and not half(p),
        "vLLM quantizes half-precision weights to fp8, not fp32 ones.",
        "Set rollout_quantization to none, or dtype to bf16.",
    ),
    Rule(
        "batch_shape",
        lambda p: p.batch_shape == "packed" and p.attention == "eager",
        "Packed rows need an attention kernel that keeps sequences apart.",
        "Set attention to flash or sdpa.",
    ),
    Rule(
        "length_distribution",
        lambda p: p.length_distribution != "" and p.batch_shape == "full",
        "With batch_shape full all rows have one length.",
        "Set batch_shape to padded or packed, or leave length_distribution empty.",
    ),
    Rule(
        "length_distribution",
        lambda p: p.length_distribution != "" and p.rollout == "in-graph",
        "Responses made in the training graph all have response_tokens tokens.",
        "Leave length_distribution empty.",
    ),
    Rule(
        "mean_prompt_tokens",
        lambda p: p.mean_prompt_tokens > p.prompt_tokens,
        "Prompts cannot be longer on average than the longest (prompt_tokens).",
        "Lower mean_prompt_tokens, or raise prompt_tokens.",
    ),
    Rule(
        "mean_prompt_tokens",
        lambda p: (
            (p.mean_prompt_tokens > 0) & (p.batch_shape == "full" or p.rollout == "in-graph")
        ),
        "With batch_shape full or rollout in-graph, all rows have one length.",
        "Set mean_prompt_tokens to 0, or batch_shape to padded or packed.",
    ),
)
