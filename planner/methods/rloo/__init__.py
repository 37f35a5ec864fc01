"""RLOO: a response's baseline is the mean reward of its prompt's other responses; no critic.

Source: REINFORCE leave-one-out (arXiv 2402.14740), as TRL's ``RLOOTrainer`` and verl's estimator
``rloo`` have it. Both take the KL term off the reward.
"""

from __future__ import annotations

from planner.values.method import POLICY, REFERENCE, REWARD_MODEL, Method
from planner.values.step_phases import OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD, sampled

METHOD = Method(
    name="rloo",
    title="RLOO",
    label="RLOO · REINFORCE leave-one-out",
    order=30,
    roles=(POLICY, REFERENCE, REWARD_MODEL),
    phases=sampled(OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD),
    least_responses=2,
    defaults={"kl": "reward", "critic": "none", "responses_per_prompt": 8},
)
