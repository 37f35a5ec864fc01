"""RLOO: a response's baseline is the mean reward of its prompt's other responses; no critic.

Source: REINFORCE leave-one-out (arXiv 2402.14740), as TRL's ``RLOOTrainer`` and verl's estimator
``rloo`` have it. Both take the KL term off the reward.
"""

from __future__ import annotations

from planner.methods.method import Method

METHOD = Method(
    name="rloo",
    title="RLOO",
    label="RLOO · REINFORCE leave-one-out",
    order=30,
    least_responses=2,
    defaults={"kl": "reward", "critic": "none", "responses_per_prompt": 8},
)
