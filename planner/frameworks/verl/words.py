"""What verl calls a plan's batches, lengths and engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from planner.frameworks.word import Word

if TYPE_CHECKING:
    from planner.plan.fields import PlanFields as Plan

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"

WORDS = {
    "prompts_per_step": Word("data.train_batch_size", "Train batch size"),
    "responses_per_prompt": Word(f"{_ROLLOUT}.n", "Rollout n"),
    "prompts_per_update": Word(f"{_ACTOR}.ppo_mini_batch_size", "PPO mini-batch size"),
    "micro_batch_size": Word(f"{_ACTOR}.ppo_micro_batch_size_per_gpu", "PPO micro-batch size"),
    "logprob_micro_batch_size": Word(
        f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu", "Log-prob micro-batch size"
    ),
    "max_tokens_per_micro_batch": Word(f"{_ACTOR}.ppo_max_token_len_per_gpu", "PPO max tokens"),
    "prompt_tokens": Word("data.max_prompt_length"),
    "response_tokens": Word("data.max_response_length"),
    "gpu_memory_utilization": Word(f"{_ROLLOUT}.gpu_memory_utilization"),
    "rollout_tensor_parallel": Word(f"{_ROLLOUT}.tensor_model_parallel_size"),
    "max_num_seqs": Word(f"{_ROLLOUT}.max_num_seqs"),
    "max_num_batched_tokens": Word(f"{_ROLLOUT}.max_num_batched_tokens"),
    "enforce_eager": Word(f"{_ROLLOUT}.enforce_eager"),
}


def batch_options(plan: Plan) -> Mapping[str, int]:
    """Prompts of a step and of an update, before each is sampled ``n`` times; rows of a GPU."""
    budget = plan.max_tokens_per_micro_batch
    micro = "max_tokens_per_micro_batch" if budget else "micro_batch_size"
    fields = ("prompts_per_step", "responses_per_prompt", "prompts_per_update", micro)
    return {WORDS[name].short: getattr(plan, name) for name in fields}
