"""TRL up to 1.14: policies score responses on materialised logits.

The model computes one position more than it scores, ``outputs`` keeps that tensor named through
the whole function, and the scored slice is divided by the temperature even when it is 1. Until
1.13 a Python loop takes one sequence at a time, and an entropy is computed for logging in chunks
of 128 tokens; 1.14 does all of it in one Triton kernel. Source: ``trl/trainer/grpo_trainer.py``,
``utils.py`` and ``kernels/logprob_entropy.py`` of 1.9.0, 1.13.0 and 1.14.0, read 2026-10.
Under its default bf16 mixed precision accelerate hands the logits out in fp32, so these paths
usually run with ``logits_dtype="fp32"``.
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.formulas.logits.head import Head
from planner.formulas.logits.materialised import LOSS_SCALARS, head_backward, squash_backward
from planner.formulas.logits.pieces import (
    FP32_BYTES,
    LOG_PROBS,
    LOGITS,
    LOGITS_GRADIENT,
    narrow,
    squashed,
    vectors,
    wide,
)
from planner.numeric import Num, maximum, minimum
from planner.term import Instant, Term

ENTROPY_CHUNK = 128
KERNEL_VECTORS = 4
"""Log-probability, entropy and two statistics."""
KERNEL_LOSS_VECTORS = 11
"""Those, and the clipped ratio with a k3 KL at its widest."""
SOURCE = "trl 1.9.0 to 1.14.0 trl/trainer/grpo_trainer.py and utils.py; read 2026-10"

SCORED = Formula(
    "scored positions over the vocabulary",
    "item_bytes * (tokens - rows) * vocab",
    category="logits",
    source=SOURCE,
    why="The last position of each sequence is left out, because it predicts no scored token.",
)
ONE_ROW = Formula(
    "one sequence over the vocabulary",
    "item_bytes * sequences * ((tokens - rows) // rows) * vocab",
    category="logits",
    source=SOURCE,
    why="TRL's loop scores one sequence at a time.",
)
LOGGED_ENTROPY = Formula(
    "entropy for the log, one chunk",
    "3 * item_bytes * minimum(tokens - rows, entropy_chunk) * vocab",
    category="logits",
    source=SOURCE,
    why="Log-probabilities, probabilities and the product of both, for 128 tokens.",
)
SCORED_NUMBERS = Formula(
    "per-token numbers of the scored positions",
    "bytes_per_token * (tokens - rows) + other_bytes",
    category="logits",
    source=SOURCE,
    why="The sampled tokens' log-probabilities, their log-sum-exps, and what autograd saves for "
    "both.",
)


def scored(head: Head, label: str) -> Term:
    """A tensor over the vocabulary for the scored positions."""
    return wide(SCORED, head, label=label)


def sequences(head: Head, count: Num, label: str) -> Term:
    """A tensor over the vocabulary for ``count`` sequences."""
    return wide(ONE_ROW, head, label=label, sequences=count)


def numbers(head: Head, per_token: Num, other_bytes: Num = 0) -> Term:
    """Small tensors of the scored positions."""
    sizes = {"bytes_per_token": per_token, "other_bytes": other_bytes}
    return wide(SCORED_NUMBERS, head, **sizes)


def forward(head: Head) -> tuple[Instant, ...]:
    """The policy's forward with gradient."""
    computed = (wide(LOGITS, head), *squashed(head))
    if head.loss.one_kernel:
        return kernel_forward(head, computed, KERNEL_LOSS_VECTORS)
    divided = scored(head, "logits over the temperature")
    before = maximum((head.tokens - head.rows) // ENTROPY_CHUNK - 1, 0)
    entropies = head.loss_item_bytes * ENTROPY_CHUNK * before
    logged = wide(LOGGED_ENTROPY, head, entropy_chunk=ENTROPY_CHUNK)
    if head.loss_item_bytes == FP32_BYTES:
        small = numbers(head, 2 * FP32_BYTES, entropies)
        entropy = Instant(name="logged entropy", terms=(*computed, divided, logged, small))
        return entropy, inside_row(head, (*computed, divided))
    small = numbers(head, head.loss_item_bytes, entropies)
    logs = scored(head, LOG_PROBS.name)
    return (Instant(name="logged entropy", terms=(*computed, divided, logs, logged, small)),)


def inside_row(head: Head, computed: tuple[Term, ...]) -> Instant:
    """The last sequence's logsumexp, whose kernel writes the exponentials out."""
    inside = sequences(head, 1, "exponentials inside logsumexp")
    return Instant(name="inside logsumexp", terms=(*computed, inside))


def kernel_forward(
    head: Head, computed: tuple[Term, ...], count: int
) -> tuple[Instant, ...]:
    """One kernel reads the logits once; with gradient they live on beside the loss's vectors."""
    scoring = Instant(name="scoring", terms=(*computed, numbers(head, count * FP32_BYTES)))
    return (scoring, *upcast(head, computed))


def upcast(head: Head, computed: tuple[Term, ...]) -> tuple[Instant, ...]:
    """The moment the logits exist in both dtypes."""
    if not head.upcasts:
        return ()
    before = narrow(LOGITS, head, label="logits before the upcast")
    return (Instant(name="upcast", terms=(*computed, before)),)


def backward(head: Head) -> tuple[Instant, ...]:
    """The way back through scoring, slicing and head."""
    named = squashed(head)
    scalars = vectors(head, 0, scalars=LOSS_SCALARS, tensors=2)
    slices = Instant(
        name="slices backward",
        terms=(
            scored(head, "gradient of the scored slice"),
            wide(LOGITS_GRADIENT, head),
            *named,
            scalars,
        ),
    )
    rest = (slices, *squash_backward(head, scalars), head_backward(head, scalars))
    if head.loss.one_kernel:
        return kernel_backward(head), *rest
    if head.loss_item_bytes == FP32_BYTES:
        return (*loop_backward_fp32(head), *rest)
    pair = sequences(head, 2, "gradients of one sequence's picks and logits")
    logs = scored(head, LOG_PROBS.name)
    # Several sequences share one stacked gradient until the first of them is done.
    small = numbers(head, head.loss_item_bytes * (head.rows > 1), LOSS_SCALARS)
    rows = Instant(name="a sequence's backward", terms=(logs, pair, *named, small))
    return rows, *rest


def loop_backward_fp32(head: Head) -> tuple[Instant, Instant]:
    """The backward of logsumexp keeps the divided logits until the last sequence is done."""
    divided = scored(head, "logits over the temperature")
    named = squashed(head)
    own = (head.tokens - head.rows) // head.rows
    last = Instant(
        name="last sequence's backward",
        terms=(
            divided,
            sequences(head, head.rows - 1, "gradients of the other sequences"),
            sequences(head, 3, "gradients of one sequence"),
            *named,
            numbers(head, 2 * FP32_BYTES, LOSS_SCALARS + FP32_BYTES * own),
        ),
    )
    picks = Instant(
        name="picking's backward",
        terms=(
            divided,
            scored(head, "gradient of the log-sum-exps"),
            scored(head, "gradient of picking the taken tokens"),
            *named,
            numbers(head, FP32_BYTES, LOSS_SCALARS),
        ),
    )
    return last, picks


def kernel_backward(head: Head) -> Instant:
    """One kernel writes the gradient of the scored slice beside the logits it reads."""
    incoming = 1 + head.entropy
    return Instant(
        name="scoring kernel backward",
        terms=(
            wide(LOGITS, head),
            *squashed(head),
            scored(head, "gradient of the scored slice"),
            numbers(head, (2 + incoming) * FP32_BYTES, LOSS_SCALARS),
        ),
    )


def without_gradient(head: Head, *, with_entropy: bool) -> tuple[Instant, ...]:
    """Old and reference log-probabilities: no entropy is logged."""
    computed: tuple[Term, ...] = (wide(LOGITS, head),)
    if head.loss.one_kernel:
        return kernel_forward(head, computed, KERNEL_VECTORS)
    computed += (scored(head, "logits over the temperature"),)
    if head.loss_item_bytes == FP32_BYTES:
        small = numbers(head, 3 * FP32_BYTES)
        scores = Instant(name="log-sum-exps", terms=(*computed, small))
        return scores, inside_row(head, computed)
    # The previous sequence's log-probabilities keep their name until the next ones exist.
    size = head.loss_item_bytes
    own = (head.tokens - head.rows) // head.rows
    two = minimum(head.rows, 2)
    logs = sequences(head, two, "log-probabilities of a sequence and the one before")
    before = numbers(head, size, -size * own)
    last = sequences(head, 1, "log-probabilities of the last sequence")
    both = numbers(head, 2 * size)
    return (
        Instant(name="a sequence's log-softmax", terms=(*computed, logs, before)),
        Instant(name="stack of the log-probabilities", terms=(*computed, last, both)),
    )
