"""PPO: GRPO's phases with a critic that is evaluated and updated before the policy."""

from __future__ import annotations

from planner.rule import Rule
from planner.values.method import CRITIC, POLICY, REFERENCE, REWARD_MODEL, Method
from planner.values.step_phases import (
    CRITIC_UPDATE,
    OLD_LOG_PROBS,
    REFERENCE_LOG_PROBS,
    REWARD,
    VALUES,
    sampled,
)

METHOD = Method(
    name="ppo",
    title="PPO",
    label="PPO · with a critic",
    order=20,
    roles=(POLICY, CRITIC, REFERENCE, REWARD_MODEL),
    phases=sampled(OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD, VALUES, CRITIC_UPDATE),
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
