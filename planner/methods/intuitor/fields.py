"""Intuitor's own fields, as a plan and its link have them."""

from __future__ import annotations

from typing import Literal

from planner.values.field import field
from planner.values.method import OwnFields


class IntuitorFields(OwnFields):
    """How self-certainty is computed, and whether gradients flow through it."""

    self_certainty: Literal["full", "chunked-vocabulary", "chunked-tokens", "fused"] = field(
        "full",
        "Self-certainty",
        "How Intuitor's self-certainty is computed over the vocabulary.",
        more="Self-certainty is Intuitor's reward: how far the next-token distribution is from "
        "uniform. Chunks bound the temporaries and give the same value; the fused head computes "
        "self-certainty in the same pass as the old log-probs.",
    )
    self_certainty_gradient: bool = field(
        False,
        "Gradient through self-certainty",
        "Let gradients flow through self-certainty (document 000's premise).",
        more="Off: Intuitor's reward has no gradient. On: its reward has a gradient, as document "
        "000 assumes, to show what that would cost.",
    )


WITH_HEAD = "fused"
"""The form that the fused head gives beside log-probs: its log-sum-exp less its mean logit."""

own = IntuitorFields.of
"""A plan as having these fields."""
