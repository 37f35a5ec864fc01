"""Full logits in verl, scored outside the model: a Triton cross entropy beside an entropy.

Source: ``verl/workers/engine/fsdp/transformer_impl.py`` and ``verl/utils/torch_functional.py`` of
verl 0.9.1 and ``flash_attn/ops/triton/cross_entropy.py``, read 2026-10. The raw output stays named
until the micro-batch's loss exists, and a temperature makes a copy. Under verl's bf16 autocast
softmax and logsumexp run in fp32 and logsumexp casts the logits once more: say
``logits_dtype="fp32"`` for it. That is the entropy of padded rows, which runs as written. Packed
rows' is compiled by default: for a GPU Inductor makes reductions of it that read the logits and
write a few numbers per token, and in the backward one kernel that writes their gradient (on a CPU
it keeps the exponentials for their second reader, 4 bytes: ``should_realize_on_reuse`` of
``torch/_inductor/ir.py``, torch 2.13, seen 2026-11).
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.formulas.logits.head import Head
from planner.formulas.logits.materialised import LOSS_SCALARS, head_backward, squash_backward
from planner.formulas.logits.pieces import (
    ENTROPY_GRADIENT,
    FP32_BYTES,
    INSIDE_LOGSUMEXP,
    LOGITS,
    LOGITS_GRADIENT,
    LOSS_GRADIENT,
    PROBS,
    PROBS_BY_LOGS,
    WIDE_LOGITS,
    narrow,
    squashed,
    vectors,
    wide,
)
from planner.term import Instant, Term

LOSS_VECTORS = 9
"""fp32 vectors of the clipped ratio with a k3 KL at its widest, the kernel's included."""

COMPILED_VECTORS = 4
"""fp32 numbers a token of the compiled entropy: itself, and what its backward reads."""

ENTROPY_CHUNKS = Formula(
    "entropy of one chunk",
    "3 * 4 * minimum(tokens, entropy_chunk) * vocab",
    category="logits",
    source="verl 0.9.1 entropy_from_logits_with_chunking; read 2026-10",
    why="A chunk's fp32 logits and probabilities, and either their product or the exponentials.",
)
ENTROPY_CHUNK_NUMBERS = Formula(
    "per-token numbers of a chunked entropy",
    "4 * tokens + 4 * (2 + chunks_before) * minimum(tokens, entropy_chunk)",
    category="logits",
    source="verl 0.9.1 entropy_from_logits_with_chunking; read 2026-10",
    why="The entropy of every token, and for one chunk its log-sum-exp, its weighted sum and the "
    "previous chunk's entropy.",
)


def read_by_loss(head: Head) -> tuple[Term, ...]:
    """The raw output and, if the temperature is not 1, its divided copy."""
    named = (narrow(LOGITS, head),) if head.temperature_scaled else ()
    return (*named, *still_read(head))


def still_read(head: Head) -> tuple[Term, ...]:
    """What of it the backward finds: the raw output has no name any more."""
    if not head.temperature_scaled:
        return (narrow(LOGITS, head),)
    return (narrow(WIDE_LOGITS, head, label="logits over the temperature"),)


def scored(head: Head) -> tuple[Term, ...]:
    """What the cross entropy reads: of padded rows a copy of their tokens, beside the logits."""
    copy = (narrow(LOGITS, head, label="logits without padding"),) if head.copied_logits else ()
    return (*read_by_loss(head), *copy)


def made(head: Head) -> Instant:
    """The model's output, while its root is still whole."""
    return Instant(name="logits", terms=(narrow(LOGITS, head), *squashed(head)))


def temperature_bytes(head: Head) -> int:
    """The temperatures cast to the logits' dtype, per token."""
    casts = head.temperature_scaled and head.item_bytes < FP32_BYTES
    return head.item_bytes if casts else 0


def entropy_forward(head: Head, *, gradient: bool) -> tuple[Instant, ...]:
    """logsumexp(z) - sum(softmax(z) z), as the eager code computes it."""
    logits = read_by_loss(head) + (squashed(head) if gradient else ())
    probs = wide(PROBS, head)
    cast: tuple[Term, ...] = ()
    if head.upcasts:
        cast = (wide(WIDE_LOGITS, head, label="logits cast for logsumexp"),)
    per_token = 2 * head.loss_item_bytes + temperature_bytes(head) * gradient
    inside = Instant(
        name="inside the entropy's logsumexp",
        terms=(*logits, probs, *cast, wide(INSIDE_LOGSUMEXP, head)),
    )
    summing = Instant(
        name="entropy",
        terms=(
            *logits,
            probs,
            *(cast if gradient else ()),
            wide(PROBS_BY_LOGS, head, label="probabilities times logits"),
            vectors(head, per_token, tensors=2),
        ),
    )
    return inside, summing


COMPILED_ENTROPY = Formula(
    "buffer of the compiled entropy",
    "4 * buffers * entries",
    category="logits",
    source="torch 2.13 Inductor, read: on a GPU its reductions keep nothing over the vocabulary; "
    "on a CPU they kept 4 bytes an entry, which is the upper bound",
    why="What torch.compile makes of entropy_from_logits was not measured on a card.",
)


def forward(head: Head) -> tuple[Instant, ...]:
    """The policy's forward with gradient."""
    if head.entropy and head.compiled_entropy:
        small = vectors(
            head,
            (LOSS_VECTORS + COMPILED_VECTORS) * FP32_BYTES + temperature_bytes(head),
            tensors=LOSS_VECTORS + COMPILED_VECTORS,
        )
        terms = (*read_by_loss(head), *squashed(head), small, _compiled(head))
        return made(head), Instant(name="loss", terms=terms)
    if head.entropy:
        return made(head), *entropy_forward(head, gradient=True)
    small = vectors(
        head, LOSS_VECTORS * FP32_BYTES + temperature_bytes(head), tensors=LOSS_VECTORS
    )
    return made(head), Instant(name="loss", terms=(*scored(head), *squashed(head), small))


def backward(head: Head) -> tuple[Instant, ...]:
    """Cross entropy in place unless an entropy still needs the logits."""
    scalars = vectors(head, 0, scalars=LOSS_SCALARS, tensors=2)
    rest = (*squash_backward(head, scalars), head_backward(head, scalars))
    if not head.entropy:
        if head.copied_logits:
            return joined_backward(head, scalars), *rest
        if not head.temperature_scaled:
            return rest
        label = "gradient of the divided logits, written over them"
        divided = Instant(
            name="division backward",
            terms=(
                narrow(LOSS_GRADIENT, head, label=label),
                narrow(LOGITS_GRADIENT, head),
                *squashed(head),
                vectors(head, temperature_bytes(head), scalars=LOSS_SCALARS, tensors=3),
            ),
        )
        return divided, *rest
    return (entropy_backward(head), *rest)


def joined_backward(head: Head, small: Term) -> Instant:
    """Rows that were put together are taken apart: their gradient, the rows', the logits."""
    return Instant(
        name="rows' backward",
        terms=(
            *still_read(head),
            narrow(LOSS_GRADIENT, head, label="gradient of the logits without padding"),
            narrow(LOGITS_GRADIENT, head, label="gradient of the rows"),
            *squashed(head),
            small,
        ),
    )


def compiled_entropy_backward(head: Head) -> Instant:
    """Cross entropy and entropy each hand back a gradient of the logits that both still read."""
    small = vectors(
        head, COMPILED_VECTORS * FP32_BYTES + temperature_bytes(head), scalars=LOSS_SCALARS
    )
    return Instant(
        name="entropy backward",
        terms=(
            *still_read(head),
            narrow(LOSS_GRADIENT, head, label="gradient of the logits from the log-probs"),
            narrow(ENTROPY_GRADIENT, head, label="gradient of the logits from the entropy"),
            *squashed(head),
            small,
            _compiled(head),
        ),
    )


def _compiled(head: Head) -> Term:
    entries = head.tokens * head.vocab
    return COMPILED_ENTROPY(head.role, buffers=0, entries=entries, between=(0, 4 * entries))


def entropy_backward(head: Head) -> Instant:
    """The widest point of going back through logsumexp(z) - sum(softmax(z) z)."""
    if head.compiled_entropy:
        return compiled_entropy_backward(head)
    small = vectors(
        head,
        2 * head.loss_item_bytes + temperature_bytes(head),
        scalars=LOSS_SCALARS,
        tensors=5,
    )
    label = "gradient of the logits so far"
    so_far = narrow(LOSS_GRADIENT, head, label=label)
    moving = tuple(
        wide(ENTROPY_GRADIENT, head, label=f"entropy gradient {part}")
        for part in ("towards the probabilities", "of logsumexp, shifted", "exp of it", "product")
    )
    return Instant(
        name="entropy backward",
        terms=(
            wide(WIDE_LOGITS if head.upcasts else LOGITS, head),
            wide(PROBS, head),
            so_far,
            *moving,
            *squashed(head),
            small,
        ),
    )


def without_gradient(head: Head, *, with_entropy: bool) -> tuple[Instant, ...]:
    """Old log-probabilities with the entropy verl always computes there; reference without.

    While a soft cap is put on them there are two of the logits, as where tanh keeps its output.
    """
    logits = read_by_loss(head)
    if not with_entropy:
        small = vectors(head, 4 * FP32_BYTES, tensors=4)
        kernel = Instant(name="scoring kernel", terms=(*scored(head), small))
        return made(head), kernel
    if head.entropy_chunk is not None:
        chunk = wide(ENTROPY_CHUNKS, head)
        # The chunk's log-sum-exp and sum, and the previous chunk's entropy if there is a full one.
        before = 1 * (head.tokens >= 2 * head.entropy_chunk)
        small = wide(ENTROPY_CHUNK_NUMBERS, head, chunks_before=before)
        chunked = Instant(name="chunked entropy", terms=(*logits, chunk, small))
        return made(head), chunked
    if head.compiled_entropy:
        small = vectors(head, COMPILED_VECTORS * FP32_BYTES, tensors=COMPILED_VECTORS)
        entropy = Instant(name="entropy", terms=(*logits, small, _compiled(head)))
        return made(head), entropy
    return made(head), *entropy_forward(head, gradient=False)
