"""Self-certainty, logsumexp(z) - mean(z) over the vocabulary, in three forms.

``full`` works on materialised logits. ``chunked-tokens`` takes 2048 of their rows at a time in
fp32, as the Intuitor fork of verl does; ``chunked-vocabulary`` never has more logits than one
slice of the vocabulary for all tokens, with a running log-sum-exp that keeps the result exact.
Intuitor computes it without gradient, in the old log-probability pass; ``with_gradient`` is the
premise under which it is part of the loss, and then both chunked forms recompute. The mean of bf16
numbers makes an fp32 copy on a CPU and none on a GPU: that copy is left out.
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.formulas.logits.head import Head
from planner.formulas.logits.materialised import (
    LOSS_SCALARS,
    head_backward,
    kept_from_head,
)
from planner.formulas.logits.pieces import (
    FP32_BYTES,
    INSIDE_LOGSUMEXP,
    LOGITS,
    LOGITS_GRADIENT,
    LOSS_GRADIENT,
    WIDE_LOGITS,
    head_gradient,
    hidden_gradient,
    narrow,
    vectors,
    wide,
)
from planner.numeric import Num, minimum
from planner.term import Instant, Term

WAYS = ("full", "chunked-tokens", "chunked-vocabulary")
TOKEN_CHUNK = 2048
VOCABULARY_CHUNK = 8192
INTUITOR = "sunblaze-ucb/Intuitor 3f0cdd7 verl-intuitor torch_functional.py; read 2026-10"

SLICE = Formula(
    "one slice of the logits",
    "item_bytes * slice_tokens * slice_vocab",
    category="logits",
    source=INTUITOR,
    why="A chunk of tokens by the vocabulary, or all tokens by a chunk of the vocabulary.",
)


def check_way(how: str) -> None:
    """``ValueError`` for a form without formulas."""
    if how not in WAYS:
        raise ValueError(f"self_certainty must be one of {', '.join(WAYS)}, not {how!r}")


def piece(head: Head, how: str, label: str, item_bytes: int = FP32_BYTES) -> Term:
    """One tensor over a chunk."""
    by_tokens = how == "chunked-tokens"
    tokens: Num = minimum(head.tokens, TOKEN_CHUNK) if by_tokens else head.tokens
    vocab: Num = head.vocab if by_tokens else minimum(head.vocab, VOCABULARY_CHUNK)
    sizes = {"item_bytes": item_bytes, "slice_tokens": tokens, "slice_vocab": vocab}
    return SLICE(head.role, label=label, **sizes)


def forward(head: Head, *, how: str, with_gradient: bool) -> tuple[Instant, ...]:
    """Scoring all tokens; with gradient the logits (not in vocabulary chunks) live on."""
    check_way(how)
    if how == "full":
        return full_forward(head, with_gradient=with_gradient)
    logits: tuple[Term, ...] = ()
    if how == "chunked-tokens":
        logits = (narrow(LOGITS, head),)
        logits += kept_from_head(head, apart=False) if with_gradient else ()
    before: tuple[Term, ...] = ()
    if how == "chunked-vocabulary" and head.item_bytes < FP32_BYTES:
        before = (piece(head, how, "slice before the upcast", head.item_bytes),)
    upcasts = head.item_bytes < FP32_BYTES or how == "chunked-vocabulary"
    wide_slice = (piece(head, how, "slice in fp32"),) if upcasts else ()
    # Log-sum-exp so far and sum so far; the slice's own are being made inside the operator.
    running = vectors(head, 2 * FP32_BYTES, tensors=2)
    inside = piece(head, how, INSIDE_LOGSUMEXP.name)
    one_more = vectors(head, 3 * FP32_BYTES, tensors=3)
    # The slice's log-sum-exp beside the running ones; or, for tokens, the weighted loss.
    by_tokens = how == "chunked-tokens"
    summed = () if by_tokens else (Instant(name="slice's sum", terms=(*wide_slice, one_more)),)
    loss = (Instant(name="loss", terms=(*logits, one_more)),) if with_gradient else ()
    return (
        *summed,
        *loss,
        Instant(name="slice upcast", terms=(*logits, *before, *wide_slice, running)),
        Instant(name="slice's logsumexp", terms=(*logits, *wide_slice, inside, running)),
    )


def kept(head: Head, *, how: str) -> tuple[Term, ...]:
    """What scoring with gradient leaves alive until the backward."""
    check_way(how)
    if how == "chunked-vocabulary":
        return ()
    apart = how == "full" and (_widened(head) or head.temperature_scaled)
    in_dtype = wide if how == "full" else narrow
    read = in_dtype(WIDE_LOGITS if apart else LOGITS, head)
    return (read, *kept_from_head(head, apart=apart))


def full_forward(head: Head, *, with_gradient: bool) -> tuple[Instant, ...]:
    """The log-sum-exp and mean of all logits at once."""
    apart = _widened(head) or head.temperature_scaled
    read = wide(WIDE_LOGITS if apart else LOGITS, head)
    kept: tuple[Term, ...] = kept_from_head(head, apart=apart) if with_gradient else ()
    if head.autocast_casts:
        kept += (narrow(LOGITS, head, label="logits, named"),)
    inside = Instant(
        name="inside logsumexp", terms=(read, wide(INSIDE_LOGSUMEXP, head), *kept)
    )
    size = head.loss_item_bytes
    # log-sum-exp, mean and difference; or log-sum-exp, difference and the weighted loss.
    per_token = 2 * size + (FP32_BYTES if with_gradient else size)
    scored = vectors(head, per_token, tensors=3)
    instants = (inside, Instant(name="difference", terms=(read, *kept, scored)))
    if not apart:
        return instants
    if head.autocast_casts:  # what is divided is never wide, nor alive when it is read
        return instants
    label = "logits before the upcast" if head.upcasts else "logits before the division"
    before = narrow(LOGITS, head, label=label)
    if head.temperature_scaled:
        before = wide(LOGITS, head, label="logits before the division")
    return (Instant(name="upcast or division", terms=(read, before, *kept)), *instants)


def backward(head: Head, *, how: str) -> tuple[Instant, ...]:
    """Gradient of the logits, recomputed chunk by chunk where the form is chunked."""
    check_way(how)
    scalars = vectors(head, 0, scalars=LOSS_SCALARS, tensors=2)
    to_head = head_backward(head, scalars)
    if how == "full":
        return full_backward(head), to_head
    # The log-sum-exp kept from the forward, and the gradient that arrives.
    kept = vectors(head, 2 * FP32_BYTES, scalars=LOSS_SCALARS, tensors=4)
    slice_gradient = piece(head, how, "slice's gradient in fp32")
    if how == "chunked-tokens":
        own: tuple[Term, ...] = (narrow(LOGITS, head),)
        own += kept_from_head(head, apart=False)
        result = narrow(LOGITS_GRADIENT, head)
        terms = (*own, result, slice_gradient, kept)
        return Instant(name="slice's gradient", terms=terms), to_head
    beside: tuple[Term, ...] = ()
    if head.softcap:
        beside = (piece(head, how, "slope of the slice's soft cap"),)
    elif head.item_bytes < FP32_BYTES:
        beside = (piece(head, how, "slice in the head's dtype", head.item_bytes),)
    whole = (hidden_gradient(head), *head_gradient(head))
    return (Instant(name="slice's gradient", terms=(*whole, slice_gradient, *beside, kept)),)


def full_backward(head: Head) -> Instant:
    """Mean's gradient beside logsumexp's three tensors."""
    size = head.loss_item_bytes
    labels = ("logits less their log-sum-exp", "its exp", "logsumexp's gradient")
    moving = tuple(wide(LOSS_GRADIENT, head, label=label) for label in labels)
    of_mean = narrow if head.autocast_casts else wide
    apart = _widened(head) or head.temperature_scaled
    return Instant(
        name="self-certainty backward",
        terms=(
            wide(LOGITS, head),
            of_mean(LOGITS_GRADIENT, head, label="the mean's gradient"),
            *moving,
            *kept_from_head(head, apart=apart),
            vectors(head, 2 * size, scalars=LOSS_SCALARS, tensors=4),
        ),
    )


def _widened(head: Head) -> bool:
    """Whether the log-sum-exp reads an fp32 copy: asked for, or made by autocast."""
    return head.upcasts or head.autocast_casts
