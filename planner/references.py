"""Where a plan's reference log-probs come from, and when they are there.

Forms of ``reference`` whose log-probs the loss itself makes have no pass of their own
(docs/decisions/0009-references-in-the-loss.md).
"""

from __future__ import annotations

from typing import Any

from planner.methods import method_of

IN_LOSS = ("cached-activations", "dual-output")
"""Made of each micro-batch in its training forward, instead of once a step before it."""


def compares(plan: Any) -> bool:
    """Whether the loss compares with a reference."""
    method = method_of(plan)
    return bool(getattr(plan, method.kl_field) != "none" or method.held_to_reference)


def in_loss(plan: Any) -> bool:
    """Whether the loss makes the reference's log-probs."""
    return compares(plan) and plan.reference in IN_LOSS


def cached(plan: Any) -> bool:
    """Whether the reference's last hidden states come with the batch."""
    return compares(plan) and plan.reference == "cached-activations"


def dual(plan: Any) -> bool:
    """Whether one forward has the outputs of policy and reference."""
    return compares(plan) and plan.reference == "dual-output"


def own_head(plan: Any) -> bool:
    """Whether the reference's head is a copy of its own: adapters leave the policy's frozen."""
    return cached(plan) and plan.finetuning == "full"
