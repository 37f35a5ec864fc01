"""GRPO and its relatives (DAPO, GSPO, Dr. GRPO): advantages by group, no critic.

They differ in advantages and clipping, which are a few numbers a token, so their
memory is the same.
"""

from __future__ import annotations

from planner.methods.method import Method

METHOD = Method(
    name="grpo",
    title="GRPO",
    label="GRPO · group-relative policy optimization",
    order=10,
    aliases=("dapo", "gspo", "dr-grpo"),
    least_responses=2,
    defaults={"kl": "loss", "critic": "none", "responses_per_prompt": 8},
)
