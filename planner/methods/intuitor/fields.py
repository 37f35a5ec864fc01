"""Intuitor's own fields, as a plan and its link have them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.values.method import OwnFields, more


class IntuitorFields(OwnFields):
    """How self-certainty is computed, and whether gradients flow through it."""

    self_certainty: Literal["full", "chunked-vocabulary", "chunked-tokens", "fused"] = Field(
        "full",
        title="Self-certainty",
        description="How Intuitor's self-certainty is computed over the vocabulary.",
        json_schema_extra=more(
            "Self-certainty is Intuitor's reward: how far the next-token distribution is from "
            "uniform. Chunks bound the temporaries and give the same value; the fused head "
            "computes self-certainty in the same pass as the old log-probs."
        ),
    )
    self_certainty_gradient: bool = Field(
        False,
        title="Gradient through self-certainty",
        description="Let gradients flow through self-certainty (document 000's premise).",
        json_schema_extra=more(
            "Off: Intuitor's reward has no gradient. On: its reward has a gradient, as document "
            "000 assumes, to show what that would cost."
        ),
    )


WITH_HEAD = "fused"
"""The form that the fused head gives beside log-probs: its log-sum-exp less its mean logit."""

own = IntuitorFields.of
"""A plan as having these fields."""
