"""Chunks of tokens (512, unless told), recomputed in the backward: verl's fused kernels in torch.

Source: ``verl/utils/experimental/torch_functional.py`` of verl 0.9.1, read 2026-10; the plain
step's ``chunked`` path follows it. One chunk's logits exist at a time, but Python names keep the
previous chunk's results until the next ones replace them, so the second chunk is the dearest.
The weight's gradient is a product of every chunk, which verl makes even for a frozen head.
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.formulas.logits.head import Head
from planner.formulas.logits.pieces import (
    FP32_BYTES,
    HEAD_GRADIENT,
    head_gradient,
    hidden_gradient,
    narrow,
    vectors,
    wide,
)
from planner.numeric import Num, maximum, minimum
from planner.term import Instant, Term

TOKEN_CHUNK = 512

CHUNK = Formula(
    "one chunk over the vocabulary",
    "item_bytes * chunk_tokens * vocab",
    category="logits",
    source="verl 0.9.1 verl/utils/experimental/torch_functional.py; read 2026-10",
    why="One tensor of a chunk's tokens by the whole vocabulary, in fp32 except the logits' "
    "gradient.",
)
CHUNK_HIDDEN = Formula(
    "one chunk's hidden gradient",
    "item_bytes * chunk_tokens * hidden",
    category="logits",
    source="verl 0.9.1 verl/utils/experimental/torch_functional.py; read 2026-10",
    why="A chunk's hidden-state gradient is added to the whole gradient once the chunk is done.",
)
CHUNK_NUMBERS = Formula(
    "one chunk's per-token numbers",
    "bytes_per_token * chunk_tokens",
    category="logits",
    source="verl 0.9.1 verl/utils/experimental/torch_functional.py; read 2026-10",
    why="Log-probabilities and entropies of a chunk before they are copied out.",
)


COMPILED = Formula(
    "one chunk over the vocabulary, compiled",
    "bytes_each * chunk_tokens * vocab",
    category="logits",
    source="buffers of Inductor (torch 2.13, its CPU backend) for this project's chunk, counted "
    "2026-11: 6 bytes an element forward (10 with a soft cap), 4 backward (8; 2 more with an "
    "entropy)",
    why="The forward has the head's output in half precision and one fp32 tensor for several "
    "reductions; the backward has the head's output and its gradient, both in half precision.",
    ignores="that a GPU's backend may fuse more",
)
COMPILED_FORWARD, COMPILED_BACKWARD = 6, 4
COMPILED_SOFTCAP, COMPILED_ENTROPY = 4, 2
"""Bytes an element that they add."""


def chunk(head: Head, tokens: Num, label: str, item_bytes: int = FP32_BYTES) -> Term:
    """One tensor over the vocabulary for ``tokens`` rows."""
    return wide(CHUNK, head, label=label, item_bytes=item_bytes, chunk_tokens=tokens)


def rows(head: Head) -> Num:
    """Tokens of a whole chunk."""
    return TOKEN_CHUNK if head.chunk_tokens is None else head.chunk_tokens


def chunk_tokens(head: Head) -> tuple[Num, Num, Num]:
    """Rows of the first and the second chunk, and 1 if there is a second, else 0."""
    size = rows(head)
    first = minimum(head.tokens, size)
    second = minimum(maximum(head.tokens - size, 0), size)
    return first, second, 1 * (head.tokens > size)


def kept(head: Head) -> tuple[Term, ...]:
    """Log-probabilities and entropies, which the loss reads."""
    return (vectors(head, FP32_BYTES + head.item_bytes, tensors=2),)


def forward(head: Head) -> tuple[Instant, ...]:
    """First and second chunk at the end of their scoring."""
    first, second, more = chunk_tokens(head)
    old_bytes = FP32_BYTES + head.item_bytes
    new_bytes = 2 * FP32_BYTES + (head.item_bytes if head.item_bytes < FP32_BYTES else 0)
    labels = ("chunk's logits", "chunk's probabilities", "chunk's log-probabilities")

    def instant(name: str, tokens: Num, before: Num) -> Instant:
        numbers = wide(CHUNK_NUMBERS, head, bytes_per_token=new_bytes, chunk_tokens=tokens)
        left = wide(
            CHUNK_NUMBERS,
            head,
            label="previous chunk's numbers",
            bytes_per_token=old_bytes,
            chunk_tokens=before,
        )
        tiles = tuple(chunk(head, tokens, label) for label in labels)
        if head.chunk_compile:
            tiles = (_compiled(head, tokens, COMPILED_FORWARD),)
        return Instant(name=name, terms=(*tiles, *kept(head), numbers, left))

    before = more * rows(head)
    return instant("first chunk", first, 0), instant("second chunk", second, before)


def without_gradient(head: Head, *, with_entropy: bool) -> tuple[Instant, ...]:
    """Log-probabilities come with entropies, whether asked for or not."""
    return forward(head)


def backward(head: Head) -> tuple[Instant, ...]:
    """First and second chunk, each at its widest over the vocabulary and at its products."""
    first, second, more = chunk_tokens(head)
    return (
        *chunk_backward(head, "first", first, 0 * first, 0 * first),
        *chunk_backward(head, "second", second, more, more * rows(head)),
    )


def chunk_backward(
    head: Head, name: str, tokens: Num, more: Num, before: Num
) -> tuple[Instant, Instant]:
    """One chunk's two candidate instants; ``before`` rows of a chunk already went back."""
    incoming = FP32_BYTES + (head.item_bytes if head.entropy else 0)
    whole = (
        hidden_gradient(head),
        *head_gradient(head),
        vectors(head, incoming, scalars=8, tensors=3 + head.entropy),
        product(head, more, "previous chunk's weight gradient"),
        narrow(
            CHUNK_HIDDEN, head, label="previous chunk's hidden gradient", chunk_tokens=before
        ),
    )
    entropy_bytes = FP32_BYTES * head.entropy
    labels = ["chunk's logits", "chunk's probabilities", "chunk's one-hot rows"]
    if head.entropy:
        labels.append("chunk's log-probabilities")
    kept = tuple(chunk(head, tokens, label) for label in labels)
    if head.chunk_compile:
        size = COMPILED_BACKWARD + COMPILED_ENTROPY * head.entropy
        own = (_compiled(head, tokens, size), *whole)
        own_product = product(head, 1 * (tokens > 0), "chunk's weight gradient")
        beside = (own_product, narrow(CHUNK_HIDDEN, head, chunk_tokens=tokens))
        gradient = chunk(head, tokens, "chunk's logits gradient", head.item_bytes)
        return (
            Instant(name=f"{name} chunk over the vocabulary", terms=own),
            Instant(name=f"{name} chunk's products", terms=(gradient, *beside, *whole)),
        )
    extra = ("gradient so far", "entropy's share", "log-probability's share")
    moving = tuple(
        chunk(head, tokens, f"chunk's {label}") for label in extra[: 2 + head.entropy]
    )
    negated = head.item_bytes * head.entropy
    widest = wide(CHUNK_NUMBERS, head, bytes_per_token=entropy_bytes + negated, chunk_tokens=tokens)
    settled = wide(CHUNK_NUMBERS, head, bytes_per_token=entropy_bytes, chunk_tokens=tokens)
    products = (
        chunk(head, tokens, "chunk's logits gradient", head.item_bytes),
        product(head, 1 * (tokens > 0), "chunk's weight gradient"),
        narrow(CHUNK_HIDDEN, head, chunk_tokens=tokens),
    )
    return (
        Instant(name=f"{name} chunk over the vocabulary", terms=(*kept, *moving, *whole, widest)),
        Instant(name=f"{name} chunk's products", terms=(*kept, *products, *whole, settled)),
    )


def _compiled(head: Head, tokens: Num, size: int) -> Term:
    each = size + COMPILED_SOFTCAP * head.softcap
    return wide(COMPILED, head, bytes_each=each, chunk_tokens=tokens)


def product(head: Head, there: Num, label: str) -> Term:
    """A chunk's weight gradient where ``there`` is 1, nothing where it is 0.

    verl's kernel makes it for a frozen head too; the plain step does not.
    """
    made = head.weight_trains or head.loss.frozen_weight_gradient
    size = head.item_bytes * there * made
    return wide(HEAD_GRADIENT, head, label=label, item_bytes=size)
