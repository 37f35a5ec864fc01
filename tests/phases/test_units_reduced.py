"""FSDP2's units as their gradients are reduced and as they arrive, where that is a phase's highest.

Dry runs decide: torch's own ``fully_shard`` under our step, under TRL's and transformers' own code.
Few shards and short rows, so that neither a layer nor the loss hides these moments.
"""

from __future__ import annotations

from typing import Any

import pytest

from dry_peaks import dry_peaks
from planner.dryrun.ask.answer import CUBLAS
from planner.estimate import estimate
from planner.plan import Plan

SHORT: dict[str, Any] = {
    **{"gpu": "h100-80gb", "sharding": "fsdp2", "method": "sft", "rollout": "none", "kl": "none"},
    **{"responses_per_prompt": 1, "micro_batch_size": 1, "logprob_micro_batch_size": 1},
    **{"prompt_tokens": 32, "response_tokens": 32, "prompts_per_step": 4},
}
LAYERS: dict[str, Any] = {
    **{"method": "grpo", "rollout": "vllm-colocated", "kl": "loss", "prompts_per_step": 8},
    **{"responses_per_prompt": 4},
    **{"logits": "response", "gradient_checkpointing": "none", "reshard_after_forward": False},
}
"""The loss is of few positions, and layers have saved much."""
UNTIED, TIED = "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-0.5B"
FORWARD, BACKWARD = "policy forward", "policy backward"


def of(framework: str, model: str, **changes: Any) -> Plan:
    return Plan(**{**SHORT, "framework": framework, "model": model, **changes})


MOMENTS = {
    "the root on few shards": (
        of("plain", UNTIED, gpus=4, shard_size=2, reduce_dtype="fp32"),
        BACKWARD,
        "root's gradients reduced",
    ),
    "the root beside gradients of earlier micro-batches": (
        of("plain", TIED, gpus=1, master_dtype="none", reduce_dtype="fp32"),
        BACKWARD,
        "root's gradients reduced",
    ),
    "a tied table that is the last of its unit": (
        of("trl", TIED, gpus=4, shard_size=2, reduce_dtype="bf16", gradient_checkpointing="full"),
        BACKWARD,
        "root's gradients reduced",
    ),
    "shards of a head that wait for their all-reduce": (
        of("trl", UNTIED, gpus=4, shard_size=2, reduce_dtype="bf16"),
        BACKWARD,
        "root's gradients reduced",
    ),
    "a head with the final norm": (
        of("hf_trainer", "meta-llama/Llama-3.1-8B", gpus=8, prompts_per_step=8,
           reduce_dtype="bf16", reshard_after_forward=False, gradient_checkpointing="none"),
        BACKWARD,
        "head's gradient reduced",
    ),
    "the last layer, copied together": (
        of("plain", "meta-llama/Llama-3.2-1B", gpus=8, **LAYERS, prompt_tokens=64,
           response_tokens=64, reduce_dtype="fp32", batch_shape="full"),
        BACKWARD,
        "last layer's gradients copied together",
    ),
    "the last layer on one GPU": (
        of("plain", "meta-llama/Llama-3.2-1B", gpus=1, **LAYERS, prompt_tokens=64,
           response_tokens=64, reduce_dtype="bf16", micro_batch_size=2),
        BACKWARD,
        "last layer's gradients reduced",
    ),
    "a head's unit from host RAM": (
        of("trl", UNTIED, gpus=1, reduce_dtype="bf16", offload="all"),
        FORWARD,
        "head's all-gather",
    ),
    "an embedding from host RAM below adapters": (
        of("trl", UNTIED, gpus=1, reduce_dtype="bf16", offload="all", finetuning="lora"),
        BACKWARD,
        "embedding's all-gather again",
    ),
    "shards of a layer from host RAM": (
        of("hf_trainer", UNTIED, gpus=2, reduce_dtype="bf16", offload="all", finetuning="lora",
           gradient_checkpointing="none"),
        BACKWARD,
        "last layer's all-gather again",
    ),
    "a reference that is one unit on one GPU": (
        of("trl", TIED, gpus=1, method="grpo", rollout="vllm-colocated", kl="loss",
           responses_per_prompt=2, reduce_dtype="bf16", reshard_after_forward=False),
        "reference log-probs",
        "a layer's forward",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MOMENTS)
def test_a_phase_is_as_high_as_its_units_make_it(case: str) -> None:
    plan, phase, instant = MOMENTS[case]
    [own] = [one for one in estimate(plan).phases if one.name == phase]
    workspaces = sum(term.bytes for term in own.terms if term.name == CUBLAS)
    assert own.requested_bytes - workspaces == pytest.approx(dry_peaks(plan)[phase], rel=6e-4)
    assert own.instant == instant
