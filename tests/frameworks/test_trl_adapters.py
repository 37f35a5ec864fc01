"""TRL's adapters and what forwards leave gathered: the closed form beside TRL's own code."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dry_peaks import meets_dry_run
from planner.estimate import estimate
from planner.phases.arriving_again import EMBEDDING_AGAIN
from planner.plan import Plan

torch.set_num_threads(1)

UNTIED, OTHER_UNTIED = "allenai/OLMo-2-0425-1B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"
TIED = "Qwen/Qwen2.5-0.5B"
SHARDED: dict[str, Any] = {"framework": "trl", "gpus": 4, "sharding": "fsdp2"}
ROWS = {"prompt_tokens": 128, "response_tokens": 256, "prompts_per_step": 16}
SAMPLED = {**SHARDED, **ROWS, "responses_per_prompt": 2}
ONCE = {**SAMPLED, "prompts_per_step": 4, "micro_batch_size": 2, "logprob_micro_batch_size": 2}
LORA = {"finetuning": "lora"}
WIDE = {**LORA, "base_dtype": "fp32"}
STAYS = {"reshard_after_forward": False}
LONG: dict[str, Any] = {
    "prompt_tokens": 1000, "response_tokens": 1048, "micro_batch_size": 4,
    "logprob_micro_batch_size": 4, "prompts_per_step": 32,
}  # fmt: skip
MANY: dict[str, Any] = {
    "framework": "trl", "model": "HuggingFaceTB/SmolLM2-135M", "gpus": 1, "sharding": "none",
    "prompts_per_step": 64,
}  # fmt: skip
KL = {"kl": "loss"}
NO_KL = {"kl": "none"}

CASES: dict[str, dict[str, Any]] = {
    "untied, GRPO": {**SAMPLED, **LORA, **KL, "model": UNTIED, "method": "grpo"},
    "untied, long rows": {**SAMPLED, **LORA, **LONG, **KL, "model": UNTIED, "method": "grpo"},
    "untied, fp32 base": {**SAMPLED, **WIDE, **NO_KL, "model": UNTIED, "method": "grpo"},
    "untied, fp16": {**SHARDED, **ROWS, **LORA, "dtype": "fp16", "model": UNTIED, "method": "sft"},
    "untied, fp32": {
        **SAMPLED, **LORA, **NO_KL, "dtype": "fp32", "model": UNTIED, "method": "grpo",
    },
    "untied, DPO": {**SHARDED, **ROWS, **LORA, **STAYS, "model": OTHER_UNTIED, "method": "dpo"},
    "tied, GRPO": {**SAMPLED, **LORA, **KL, "model": TIED, "method": "grpo"},
    "tied, one micro-batch": {**ONCE, **LORA, **STAYS, **NO_KL, "model": TIED, "method": "rloo"},
    "full, one micro-batch": {**ONCE, **NO_KL, "model": OTHER_UNTIED, "method": "rloo"},
    "full, DPO": {**SHARDED, **ROWS, **STAYS, "model": OTHER_UNTIED, "method": "dpo"},
    "many rows": {**MANY, **KL, "method": "grpo", "dtype": "fp16"},
    "many rows, RLOO": {**MANY, **NO_KL, "method": "rloo", "rollout": "hf"},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_closed_form_is_what_trl_makes(case: str) -> None:
    meets_dry_run(Plan(**CASES[case]), within=2e-3, code="trl")


def test_an_untied_head_is_gathered_once_as_it_is_stored() -> None:
    def head(base: str) -> dict[str, float]:
        plan = Plan(**{**CASES["untied, GRPO"], "kl": "none", "base_dtype": base})
        phase = next(one for one in estimate(plan).phases if one.name == "policy backward")
        return {term.name: term.bytes for term in phase.terms}

    half, wide = head("compute"), head("fp32")
    assert "all-gather buffer of the root" not in {**half, **wide}
    assert wide["gathered root weights"] > 2 * 100_352 * 2048
    assert "head's weight of a tile in half precision" in wide
    assert EMBEDDING_AGAIN in _instants(Plan(**CASES["untied, GRPO"]))


def _instants(plan: Plan) -> set[str]:
    return {phase.instant for phase in estimate(plan).phases}
