"""Whole training steps run for real on tiny models: every phase's peak against the estimate.

The run knows no formula: it builds a transformers model (and peft's adapters) from a
config, trains two steps with torch's own AdamW, and counts live storages.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from accuracy.real_step import real_step
from live_bytes import LiveBytes
from planner import catalog
from planner.estimate import estimate
from planner.facts import facts_of
from planner.formulas.parameters import layer_parameter_count
from planner.plan import Plan
from planner.units import MIB

CUBLAS = 64 * MIB
"""The two workspaces a CPU has not; the plan's card is an H100."""

LLAMA: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GEMMA: dict[str, Any] = {
    **LLAMA,
    "tie_word_embeddings": True,
    "sliding_window": 32,
    "query_pre_attn_scalar": 16,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "qwen2": {**LLAMA, "tie_word_embeddings": True},
    "qwen3": LLAMA,
    "mistral": {**LLAMA, "sliding_window": None},
    "phi3": {**LLAMA, "sliding_window": None, "original_max_position_embeddings": 512},
    "gemma2": GEMMA,
    "gemma3_text": {**GEMMA, "sliding_window_pattern": 2},
    "gpt2": {
        "n_embd": 64,
        "n_head": 4,
        "n_layer": 4,
        "n_positions": 512,
        "vocab_size": 1000,
        "activation_function": "gelu_new",
        # A CPU keeps dropout's noise in the compute dtype, a GPU as booleans.
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": True,
    },
}


class LiveMeter:
    """Reads peaks from :class:`LiveBytes`."""

    def __init__(self) -> None:
        self.tracker = LiveBytes()

    def watch(self) -> LiveBytes:
        return self.tracker

    def reset_peak(self) -> None:
        self.tracker.reset_peak()

    def read(self) -> int:
        return self.tracker.peak


def tiny_plan(config: dict[str, Any], **changes: Any) -> Plan:
    values: dict[str, Any] = {
        "model": "tiny/model",
        "config": catalog.encode_config(config),
        "method": "sft",
        "gpus": 1,
        "sharding": "none",
        "prompts_per_step": 3,
        "micro_batch_size": 3,
        "prompt_tokens": 61,
        "response_tokens": 67,
        "batch_shape": "full",
        "optimizer": "adamw-foreach",
        "gradient_checkpointing": "none",
        "attention": "eager",
        "logits": "full",
    }
    merged = {**values, **changes}
    if merged.get("finetuning") != "lora":
        merged["master_dtype"] = "none"
    return Plan(**merged)


CASES: list[tuple[str, dict[str, Any]]] = [
    *(
        (family, {"dtype": dtype, "gradient_checkpointing": checkpointing})
        for family in CONFIGS
        for dtype in ("bf16", "fp32")
        for checkpointing in ("none", "full")
    ),
    *(
        (family, {"dtype": "bf16", "attention": "sdpa", "prompts_per_step": 6})
        for family in ("llama", "qwen2", "qwen3", "mistral", "phi3", "gemma3_text")
    ),
    *(
        (family, {"batch_shape": "padded", "prompts_per_step": 6, "gradient_checkpointing": ckpt})
        for family in ("qwen3", "gemma2", "gpt2")
        for ckpt in ("none", "full")
    ),
    # Short rows, deep enough that the backward peaks at its end: gradients, not logits.
    *(
        (family, {"dtype": "fp32", "prompt_tokens": 16, "response_tokens": 16, **rows, **more})
        for family in ("llama", "qwen2", "gpt2")
        for rows in (
            {"prompts_per_step": 1, "micro_batch_size": 1},
            {"prompts_per_step": 2, "micro_batch_size": 1},
        )
        for more in ({}, {"gradient_checkpointing": "full"})
    ),
    *(
        ("qwen3", {"finetuning": "lora", "lora_rank": 4, "lora_targets": names, **more})
        for names in ("q_proj,v_proj", "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj")
        for more in (
            {},
            {"gradient_checkpointing": "full"},
            {"master_dtype": "none"},
            {"master_dtype": "none", "gradient_checkpointing": "full"},
            {"dtype": "fp32", "master_dtype": "none", "optimizer": "adamw-fused"},
            {"attention": "sdpa", "prompts_per_step": 6},
        )
    ),
]


@pytest.mark.parametrize(
    ("family", "changes"),
    CASES,
    ids=[f"{family}-{'-'.join(str(v) for v in changes.values())}" for family, changes in CASES],
)
def test_every_phase_peaks_where_the_real_step_does(family: str, changes: dict[str, Any]) -> None:
    config = {**CONFIGS[family], "model_type": family}
    plan = tiny_plan(config, **changes)
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = real_step(config, plan, LiveMeter())
    phases = {phase.name: phase for phase in estimate(plan).phases}
    # A CPU keeps bf16 LayerNorm's mean and scale in bf16, a GPU in fp32.
    close = 2e-3 if family == "gpt2" and plan.dtype == "bf16" else 1e-3
    for name, live in real.items():
        own, instant = phases[name].requested_bytes - CUBLAS, phases[name].instant
        over = own - live
        if instant == "first layer's backward":
            # Counted as if the first layer had made all its gradients: never too little.
            spare = layer_gradient_bytes(plan)
            assert -1e-3 * live <= over <= spare + 1e-3 * live, (name, over, spare)
        else:
            assert own == pytest.approx(live, rel=close), (name, instant, over)


def layer_gradient_bytes(plan: Plan) -> int:
    architecture = facts_of(plan).policy
    return layer_parameter_count(architecture) * (4 if plan.dtype == "fp32" else 2)
