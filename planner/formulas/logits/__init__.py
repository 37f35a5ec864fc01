"""Bytes at the instants where the loss meets the vocabulary, per way of meeting it.

:func:`loss_forward` and :func:`loss_backward` give the terms of the highest instant of a
micro-batch's loss, beyond hidden states and weights; the others cover the passes without
gradient and what is kept between passes.
"""

from __future__ import annotations

from planner.footprint import Instant, Term
from planner.formulas.logits import chunks, materialised, packed, responses, tiles
from planner.formulas.logits.head import Head, effective_logits, highest

__all__ = [
    "Head",
    "backward_instants",
    "effective_logits",
    "forward_instants",
    "loss_backward",
    "loss_forward",
]

OBJECTIVES = ("sft", "policy")


def loss_forward(head: Head, *, objective: str, role: str) -> tuple[Term, ...]:
    """Terms alive at the highest instant of the forward through head and loss."""
    return highest(*forward_instants(head, objective=objective, role=role)).terms


def loss_backward(head: Head, *, objective: str, role: str) -> tuple[Term, ...]:
    """Terms alive at the highest instant of the loss's backward, gradients included."""
    return highest(*backward_instants(head, objective=objective, role=role)).terms


def forward_instants(head: Head, *, objective: str, role: str) -> tuple[Instant, ...]:
    """Every instant of the forward that can be the highest, by sizes."""
    check_objective(objective)
    if head.logits == "fused":
        return tiles.forward(head, role)
    if head.logits == "chunked":
        return chunks.forward(head, role)
    if head.framework == "trl":
        return responses.forward(head, role)
    if head.framework == "verl":
        return packed.forward(head, role)
    if objective == "sft":
        return materialised.sft_forward(head, role)
    return materialised.policy_forward(head, role)


def backward_instants(head: Head, *, objective: str, role: str) -> tuple[Instant, ...]:
    """Every instant of the loss's backward that can be the highest, by sizes."""
    check_objective(objective)
    if head.logits == "fused":
        return tiles.backward(head, role)
    if head.logits == "chunked":
        return chunks.backward(head, role)
    if head.framework == "trl":
        return responses.backward(head, role)
    if head.framework == "verl":
        return packed.backward(head, role)
    if objective == "sft":
        return materialised.sft_backward(head, role)
    return materialised.policy_backward(head, role)


def check_objective(objective: str) -> None:
    """``ValueError`` for an objective without formulas."""
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}, not {objective!r}")
