"""A policy's loss on materialised logits, as the plain step has it.

The plain step frees each tensor as soon as it can: it rebinds the logits when it upcasts or
divides them, drops them before picking the taken tokens, and computes the entropy last.
"""

from __future__ import annotations

from dataclasses import replace

from planner.formulas.logits.head import Head
from planner.formulas.logits.pieces import (
    ENTROPY_GRADIENT,
    FP32_BYTES,
    LOG_PROBS,
    LOGITS,
    LOGITS_GRADIENT,
    LOSS_GRADIENT,
    PICK_GRADIENT,
    PROBS,
    PROBS_BY_LOGS,
    SQUASHED,
    WIDE_LOGITS,
    head_gradient,
    hidden_gradient,
    narrow,
    squashed,
    vectors,
    wide,
)
from planner.term import Instant, Term

RATIO_VECTORS = 8
"""fp32 vectors of the clipped ratio with a k3 KL alive at its widest point."""
LOSS_SCALARS = 2 * FP32_BYTES
"""The loss and the one that starts the backward pass."""


def kept_from_head(head: Head, *, apart: bool) -> tuple[Term, ...]:
    """What the head leaves alive: its output if still named, and tanh's output.

    ``apart`` says that the log-softmax reads another tensor than the head's output.
    """
    kept: tuple[Term, ...] = ()
    if head.logits_held and apart:
        kept += (narrow(LOGITS, head, label="logits still named"),)
    return (*kept, *squashed(head))


def forward(head: Head) -> tuple[Instant, ...]:
    """Log-probability of the taken tokens, the clipped ratio and, if asked, an entropy."""
    apart = head.upcasts or head.temperature_scaled
    entering = wide(WIDE_LOGITS if apart else LOGITS, head)
    log_probs = wide(LOG_PROBS, head)
    kept = kept_from_head(head, apart=apart)
    still_named = kept_from_head(head, apart=True)
    if head.autocast_casts:
        kept += (narrow(LOGITS, head, label="logits, named"),)
    softmax = Instant(name="log-softmax", terms=(entering, log_probs, *kept))
    taken = head.loss_item_bytes
    if not head.entropy:
        loss = vectors(
            head, taken + (RATIO_VECTORS - 1) * FP32_BYTES, scalars=0, tensors=RATIO_VECTORS
        )
        return softmax, Instant(name="loss", terms=(log_probs, *still_named, loss))
    return softmax, entropy_sum(head, still_named, sums=2)


def kept(head: Head) -> tuple[Term, ...]:
    """What the log-softmax and the entropy keep for their backwards."""
    kept = (wide(LOG_PROBS, head), *kept_from_head(head, apart=True))
    return (*kept, wide(PROBS, head)) if head.entropy else kept


def entropy_sum(head: Head, named: tuple[Term, ...], *, sums: int) -> Instant:
    """Probabilities and their products with the logs, as ``-(p * log p).sum()`` makes them."""
    return Instant(
        name="entropy",
        terms=(
            wide(LOG_PROBS, head),
            wide(PROBS, head),
            wide(PROBS_BY_LOGS, head),
            *named,
            vectors(head, sums * head.loss_item_bytes, tensors=sums),
        ),
    )


def without_gradient(head: Head, *, with_entropy: bool) -> tuple[Instant, ...]:
    """Old and reference log-probabilities: tanh's output is gone before the log-softmax."""
    plain = replace(head, softcap=False) if head.softcap else head
    softmax, _ = forward(plain)
    if not with_entropy:
        return (softmax,)
    # Nothing keeps exp for a backward, so it is gone when the sums appear: one vector.
    return softmax, entropy_sum(head, kept_from_head(plain, apart=True), sums=1)


def backward(head: Head) -> tuple[Instant, ...]:
    """The way back through the log-softmax, then through the head."""
    log_probs = wide(LOG_PROBS, head)
    named = kept_from_head(head, apart=True)
    scalars = vectors(head, 0, scalars=LOSS_SCALARS, tensors=2)
    small = scalars
    grads: tuple[Term, ...] = (wide(PICK_GRADIENT, head), wide(LOGITS_GRADIENT, head))
    if head.entropy:
        small = vectors(head, head.loss_item_bytes, scalars=LOSS_SCALARS, tensors=3)
        parts = ("towards the logs", "towards the probabilities", "through exp")
        grads = (wide(PROBS, head),) + tuple(
            wide(ENTROPY_GRADIENT, head, label=f"entropy gradient {part}") for part in parts
        )
    softmax = Instant(name="log-softmax backward", terms=(log_probs, *grads, *named, small))
    return softmax, head_backward(head, scalars)


def head_backward(head: Head, small: Term) -> Instant:
    """The head's own backward: all three gradients exist before any is handed on."""
    named = tuple(
        term for term in kept_from_head(head, apart=True) if term.name != SQUASHED.name
    )
    return Instant(
        name="head backward",
        terms=(
            narrow(LOGITS_GRADIENT, head),
            hidden_gradient(head),
            *head_gradient(head),
            *named,
            small,
        ),
    )


def squash_backward(head: Head, small: Term) -> tuple[Instant, ...]:
    """The soft cap's backward: tanh's output between the gradients before and after it."""
    if not head.softcap:
        return ()
    after = narrow(LOSS_GRADIENT, head, label="gradient after cap")
    squashed = narrow(SQUASHED, head)
    before = narrow(LOGITS_GRADIENT, head)
    return (Instant(name="soft cap backward", terms=(after, squashed, before, small)),)
