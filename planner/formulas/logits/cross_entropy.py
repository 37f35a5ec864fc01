"""Hugging Face's own loss of given tokens, on materialised logits."""

from __future__ import annotations

from planner.formulas.logits.head import Head
from planner.formulas.logits.materialised import (
    LOSS_SCALARS,
    head_backward,
    kept_from_head,
)
from planner.formulas.logits.pieces import (
    FP32_BYTES,
    LOG_PROBS,
    LOGITS,
    LOGITS_GRADIENT,
    LOSS_GRADIENT,
    WIDE_LOGITS,
    vectors,
    wide,
)
from planner.term import Instant

LABEL_BYTES = 8
"""torch indexes and labels with int64."""


def forward(head: Head) -> tuple[Instant, ...]:
    """``ForCausalLMLoss``: upcast, labels padded by one per row, cross entropy."""
    log_probs = wide(LOG_PROBS, head, item_bytes=FP32_BYTES)
    apart = head.item_bytes < FP32_BYTES
    entering = wide(WIDE_LOGITS if apart else LOGITS, head, item_bytes=FP32_BYTES)
    # Several rows make the shifted labels a copy; one row leaves them a view of the padded ones.
    copied = LABEL_BYTES * (head.rows > 1)
    labels = vectors(
        head,
        LABEL_BYTES + copied,
        per_row=LABEL_BYTES,
        scalars=LOSS_SCALARS,
        tensors=4,
    )
    kept = kept_from_head(head, apart=apart)
    return (Instant(name="cross entropy", terms=(entering, log_probs, *kept, labels)),)


def backward(head: Head) -> tuple[Instant, ...]:
    """Cross entropy's two gradients over the vocabulary, then the head."""
    scalars = vectors(head, 0, scalars=LOSS_SCALARS, tensors=2)
    softmax = Instant(
        name="log-softmax backward",
        terms=(
            wide(LOG_PROBS, head, item_bytes=FP32_BYTES),
            wide(LOSS_GRADIENT, head, item_bytes=FP32_BYTES),
            wide(LOGITS_GRADIENT, head, item_bytes=FP32_BYTES),
            *kept_from_head(head, apart=True),
            scalars,
        ),
    )
    return softmax, head_backward(head, scalars)
