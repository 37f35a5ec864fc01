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
from accuracy.tiny import CONFIGS, MIXTURES
from evidence import Evidence
from live_bytes import LiveBytes
from planner import catalog
from planner.estimate import estimate
from planner.formulas.parameters import layer_parameter_count
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.units import MIB

CUBLAS = 64 * MIB
"""The two workspaces a CPU has not; the plan's card is an H100."""

LAYER_NORMS = ("gpt2", "gpt_neox", "starcoder2")


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
        if family not in MIXTURES
        for dtype in ("bf16", "fp32")
        for checkpointing in ("none", "full")
    ),
    *(
        (family, {"dtype": dtype, "gradient_checkpointing": checkpointing, **more})
        for family, dtype, checkpointing, more in (
            ("qwen3_moe", "bf16", "none", {"attention": "sdpa"}),
            ("qwen3_moe", "bf16", "full", {"batch_shape": "padded", "prompts_per_step": 6}),
            ("mixtral", "bf16", "none", {}),
            ("mixtral", "fp32", "full", {}),
            ("olmoe", "fp32", "none", {"prompts_per_step": 6}),
            ("olmoe", "bf16", "full", {}),
            ("two kinds", "bf16", "none", {}),
            ("two kinds", "fp32", "full", {"prompts_per_step": 6}),
            ("wide experts", "bf16", "full", {"attention": "sdpa"}),
            ("wide experts", "bf16", "full", {"attention": "sdpa", "prompts_per_step": 6}),
            ("wide MLP", "bf16", "full", {"attention": "sdpa"}),
        )
    ),
    # Short rows again, where the gradients of experts decide.
    *(
        (family, {"prompt_tokens": 16, "response_tokens": 16, "micro_batch_size": 1, **more})
        for family in ("mixtral", "two kinds")
        for more in (
            {"prompts_per_step": 1, "gradient_checkpointing": "full"},
            {"prompts_per_step": 2},
        )
    ),
    *(
        (family, {"finetuning": "lora", "lora_rank": 4, "lora_targets": names, **more})
        for family in ("qwen3_moe", "two kinds")
        for names in ("q_proj,k_proj,v_proj,o_proj",)
        for more in ({}, {"gradient_checkpointing": "full"})
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
    *(
        (family, {"dtype": "bf16", "attention": "sdpa", "prompts_per_step": 6})
        for family in ("gpt_neox", "olmo3", "starcoder2", "smollm3", "glm4")
    ),
    *(
        (family, {"finetuning": "lora", "lora_rank": 4, "lora_targets": names, **more})
        for family, names in (
            ("gpt_neox", "query_key_value,dense"),
            ("olmo2", "q_proj,o_proj,down_proj"),
            ("glm4", "q_proj,gate_up_proj"),
        )
        for more in ({}, {"gradient_checkpointing": "full"})
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


def named(family: str, changes: dict[str, Any]) -> str:
    """By every field, since two may change to the same value."""
    return "-".join((family, *(f"{field}={value}" for field, value in changes.items())))


EVIDENCE = Evidence(
    "real-steps",
    of=("accuracy.real_step", "live_bytes", "accuracy.tiny"),
    kinds={named(family, changes): family for family, changes in CASES},
    within=5e-4,
)


@pytest.mark.parametrize(
    ("family", "changes"),
    CASES,
    ids=[f"{family}-{'-'.join(str(v) for v in changes.values())}" for family, changes in CASES],
)
def test_every_phase_peaks_where_the_real_step_does(family: str, changes: dict[str, Any]) -> None:
    config = {"model_type": family, **CONFIGS[family]}
    plan = tiny_plan(config, **changes)
    real = EVIDENCE.figures(
        named(family, changes), [plan.model_dump(), config], lambda: real_peaks(config, plan)
    )
    phases = {phase.name: phase for phase in estimate(plan).phases}
    # A CPU keeps bf16 LayerNorm's mean and scale in bf16, a GPU in fp32.
    close = 2e-3 if family in LAYER_NORMS and plan.dtype == "bf16" else 1e-3
    for name, live in real.items():
        own, instant = phases[name].requested_bytes - CUBLAS, phases[name].instant
        over = own - live
        added = plan.prompts_per_step > plan.micro_batch_size and family in MIXTURES
        if instant and instant.endswith("layer's backward") and ("first" in instant or added):
            # Counted as if the first layer had made all its gradients, and as if experts'
            # gradients were added while the routed rows are at their peak, and with the layer's
            # input both as a checkpoint and by name: never too little.
            spare = layer_gradient_bytes(plan) + layer_input_bytes(plan)
            assert -1e-3 * live <= over <= spare + 1e-3 * live, (name, over, spare)
        else:
            assert own == pytest.approx(live, rel=close), (name, instant, over)


def real_peaks(config: dict[str, Any], plan: Plan) -> dict[str, int]:
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return real_step(config, plan, LiveMeter())


def layer_input_bytes(plan: Plan) -> int:
    tokens = plan.micro_batch_size * (plan.prompt_tokens + plan.response_tokens)
    return tokens * facts_of(plan).policy.hidden * (4 if plan.dtype == "fp32" else 2)


def layer_gradient_bytes(plan: Plan) -> int:
    architecture = facts_of(plan).policy
    return layer_parameter_count(architecture) * (4 if plan.dtype == "fp32" else 2)
