"""PPO: GRPO's phases with a critic that is evaluated and updated before the policy."""

from __future__ import annotations

from planner.methods.method import Method
from planner.rule import Rule

METHOD = Method(
    name="ppo",
    title="PPO",
    label="PPO · with a critic",
    order=20,
    critics=("separate", "shared"),
    defaults={"kl": "reward", "critic": "separate", "responses_per_prompt": 1},
    rules=(
        Rule(
            "critic",
            lambda plan: plan.critic == "none",
            "PPO needs a critic.",
            "Set critic to separate.",
        ),
    ),
)
