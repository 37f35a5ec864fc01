"""What TRL's trainers call a plan's batches, lengths and engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from planner.frameworks.word import Word
from planner.numeric import ceil_div

if TYPE_CHECKING:
    from planner.plan.fields import PlanFields as Plan

WORDS = {
    "responses_per_prompt": Word("num_generations", "Generations"),
    "prompts_per_update": Word("gradient_accumulation_steps", "Prompts per optimizer step"),
    "micro_batch_size": Word("per_device_train_batch_size", "Per-device train batch size"),
    "response_tokens": Word("max_completion_length"),
    "gpu_memory_utilization": Word("vllm_gpu_memory_utilization"),
    "rollout_tensor_parallel": Word("vllm_tensor_parallel_size"),
}


def batch_options(plan: Plan) -> Mapping[str, int]:
    """A device's batch, and how many of them an optimizer step adds up."""
    together = plan.micro_batch_size * (plan.gpus - plan.rollout_gpus)
    rounds = ceil_div(plan.prompts_per_update * plan.responses_per_prompt, together)
    options = {
        "per_device_train_batch_size": plan.micro_batch_size,
        "gradient_accumulation_steps": rounds if plan.optimizer_step == "update" else 1,
    }
    sampled = {"num_generations": plan.responses_per_prompt}
    return options | (sampled if plan.responses_per_prompt > 1 else {})
