"""GRPO and its variations (DAPO, Dr. GRPO, GSPO, CISPO): advantages by group, no critic.

They differ in advantages and clipping, which are a few numbers a token, so their
memory is the same where their KL term is.
"""

from __future__ import annotations

from planner.values.method import POLICY, REFERENCE, REWARD_MODEL, Method, Variation
from planner.values.step_phases import OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD, sampled

NO_KL = {"kl": "none"}
WITHOUT_KL = "Without a KL term no reference model is needed, which saves memory and time."

VARIATIONS = {
    "dapo": Variation(
        title="DAPO",
        label="DAPO · GRPO with clip-higher and a token-level loss",
        defaults=NO_KL,
        memory="Clip-higher, the token-level loss and overlong shaping change neither memory nor "
        f"time. {WITHOUT_KL} Dynamic sampling takes time: set the generation multiplier under "
        "Rollout engine (3 in DAPO's own script).",
        left_out="DAPO's soft penalty for overlong responses belongs in reward.py.",
    ),
    "dr-grpo": Variation(
        title="Dr. GRPO",
        label="Dr. GRPO · GRPO without length and difficulty bias",
        defaults=NO_KL,
        memory="Rewards that are not divided by their standard deviation, and a loss that is "
        f"divided by a constant, change neither memory nor time. {WITHOUT_KL}",
    ),
    "gspo": Variation(
        title="GSPO",
        label="GSPO · GRPO with one importance ratio per sequence",
        defaults=NO_KL,
        memory=f"Sequence-level importance ratios change neither memory nor time. {WITHOUT_KL}",
    ),
    "cispo": Variation(
        title="CISPO",
        label="CISPO · GRPO with clipped importance weights",
        defaults=NO_KL,
        memory=f"Clipped importance weights change neither memory nor time. {WITHOUT_KL}",
    ),
}
"""Sources: DAPO arXiv 2503.14476, Dr. GRPO 2503.20783, GSPO 2507.18071, CISPO 2506.13585."""

METHOD = Method(
    name="grpo",
    title="GRPO",
    label="GRPO · group-relative policy optimization",
    order=10,
    roles=(POLICY, REFERENCE, REWARD_MODEL),
    phases=sampled(OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD),
    least_responses=2,
    variations=VARIATIONS,
    defaults={"kl": "loss", "critic": "none", "responses_per_prompt": 8},
)
