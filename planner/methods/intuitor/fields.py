"""Intuitor's own fields, as a plan and its link have them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.methods.method import OwnFields, more


class IntuitorFields(OwnFields):
    """How self-certainty is computed, and whether gradients flow through it."""

    self_certainty: Literal["full", "chunked-vocabulary", "chunked-tokens", "fused"] = Field(
        "full",
        title="Self-certainty",
        description="How Intuitor's self-certainty meets the vocabulary.",
        json_schema_extra=more(
            "Intuitor's reward: how far the next-token distribution is from uniform. Chunks bound "
            "the temporaries and give the same value; the fused head gives it beside the old "
            "log-probs, in the same pass."
        ),
    )
    self_certainty_gradient: bool = Field(
        False,
        title="Gradient through self-certainty",
        description="Let gradients flow through self-certainty (the document's premise).",
        json_schema_extra=more(
            "Off is what Intuitor does. On is document 000's premise, to see what it would cost."
        ),
    )


WITH_HEAD = "fused"
"""The form that the fused head gives beside log-probs: its log-sum-exp less its mean logit."""

own = IntuitorFields.of
"""A plan as having these fields."""
