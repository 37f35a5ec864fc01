"""Intuitor's own fields, as a plan and its link have them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.methods.method import OwnFields


class IntuitorFields(OwnFields):
    """How self-certainty is computed, and whether gradients flow through it."""

    self_certainty: Literal["full", "chunked-vocabulary", "chunked-tokens"] = Field(
        "full", description="How Intuitor's self-certainty meets the vocabulary."
    )
    self_certainty_gradient: bool = Field(
        False, description="Let gradients flow through self-certainty (the document's premise)."
    )


own = IntuitorFields.of
"""A plan as having these fields."""
