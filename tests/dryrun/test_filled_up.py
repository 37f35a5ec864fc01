"""The step itself runs a batch that is filled up, to the bytes that are planned."""

from __future__ import annotations

import warnings

from planner.dryrun.logs.curve import peaks
from planner.dryrun.run.execute import dry_run
from planner.plan import Plan

CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 160,
    "max_position_embeddings": 2048,
}


def _peaks(prompts: int, responses: int) -> dict[str, int]:
    plan = Plan(
        method="grpo",
        rollout="hf",
        gpus=2,
        prompts_per_step=prompts,
        responses_per_prompt=responses,
        micro_batch_size=4,
        prompt_tokens=16,
        response_tokens=16,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = dry_run(plan, dict.fromkeys(("policy", "critic", "reward"), CONFIG))
    return {peak.phase: peak.requested_bytes for peak in peaks(log)}


def test_groups_that_gpus_share_are_filled_up() -> None:
    """Nine sequences over two GPUs: five each, filled up to eight, which end within a group."""
    filled, whole = _peaks(3, 3), _peaks(8, 2)
    assert filled.keys() == whole.keys()
    for phase, size in whole.items():
        assert abs(filled[phase] - size) <= 4096, phase  # a group's rewards are gathered
