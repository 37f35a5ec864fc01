"""GRPO and its relatives (DAPO, GSPO, Dr. GRPO): advantages by group, no critic.

They differ in advantages and clipping, which are a few numbers a token, so their
memory is the same.
"""

from __future__ import annotations

from planner.methods.method import POLICY, REFERENCE, REWARD_MODEL, Method
from planner.values.step_phases import OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD, sampled

METHOD = Method(
    name="grpo",
    title="GRPO",
    label="GRPO · group-relative policy optimization",
    order=10,
    roles=(POLICY, REFERENCE, REWARD_MODEL),
    phases=sampled(OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD),
    aliases=("dapo", "gspo", "dr-grpo"),
    least_responses=2,
    defaults={"kl": "loss", "critic": "none", "responses_per_prompt": 8},
)
