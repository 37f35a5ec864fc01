"""A critic's loss: its head has one column instead of a vocabulary."""

from __future__ import annotations

from planner.formulas.logits.head import Head
from planner.formulas.logits.materialised import LOSS_SCALARS
from planner.formulas.logits.pieces import FP32_BYTES, head_gradient, hidden_gradient, vectors
from planner.term import Instant

VALUE_VECTORS = 9
"""fp32 vectors of the clipped squared error at its widest."""


def forward(head: Head) -> tuple[Instant, ...]:
    """A critic's clipped squared error; its head has one column instead of a vocabulary."""
    per_token = head.item_bytes + VALUE_VECTORS * FP32_BYTES
    small = vectors(head, per_token, scalars=FP32_BYTES, tensors=VALUE_VECTORS + 2)
    return (Instant(name="value loss", terms=(small,)),)


def backward(head: Head) -> tuple[Instant, ...]:
    """The value head's backward."""
    small = vectors(head, head.item_bytes, scalars=LOSS_SCALARS, tensors=3)
    return (
        Instant(
            name="value head backward",
            terms=(
                hidden_gradient(head),
                *head_gradient(head, columns=1, label="new gradient of the value head"),
                small,
            ),
        ),
    )
