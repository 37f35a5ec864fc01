"""The fused head: tiles of 4096 tokens by 32768 vocabulary entries, no logits at all.

TRL 1.15 and later run it in every trainer, and the plain step's ``fused`` path follows it.
Source: ``trl/kernels/chunked_logprob.py`` of trl 1.16.0, read 2026-10. On a GPU its Triton
kernels work in place on the tile and the gradient products accumulate in fp32 inside cuBLAS, so
nothing else over the vocabulary exists; off a GPU torch operations make several more fp32 tiles,
which these formulas leave out. The plain step (``planner/steps/vocabulary/tiles.py``) has no
kernel of its own and widens 64 rows of the tile at a time.
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.formulas.logits.head import Head
from planner.formulas.logits.pieces import (
    FP32_BYTES,
    head_gradient,
    hidden_gradient,
    narrow,
    vectors,
    wide,
)
from planner.term import Instant, Term

TOKEN_TILE = 4096
VOCABULARY_TILE = 32768
FP32_ROWS = 64
"""Rows of a tile that the plain step has in fp32 at the same time: 8 MiB."""
RUNNING_VECTORS = 7
"""Running maximum, sums, target logit: TRL allocates them whether asked for or not."""
RUNNING_IN_PLAIN = 3
"""Running maximum, sum and target logit; the sums of entropy and self-certainty come with them."""
ROW_FORWARD = 8 + 5 * FP32_BYTES
"""Target's column, new maximum, shrinking factor and three terms of the new sum."""
ROW_BACKWARD = 2 * 8 + FP32_BYTES + 1
"""Target's column, the same clamped, its gradient, and whether it is in the tile."""

TILE = Formula(
    "tile of logits",
    "item_bytes * minimum(tokens, token_tile) * vocabulary_tile",
    category="logits",
    source="trl 1.16.0 trl/kernels/chunked_logprob.py, mm_buf; read 2026-10",
    why="One buffer is reused for every tile; its width does not shrink for a small vocabulary.",
    ignores="the fp32 copies made where Triton is missing",
)


COMPACT = Formula(
    "hidden states of the scored tokens",
    "item_bytes * tokens * hidden",
    category="logits",
    source="trl 1.16.0 trl/trainer/utils.py, add_fused_lm_head; read 2026-10",
    why="Before the head's GEMM, TRL copies the rows that have a label and keeps that copy.",
)
COMPACT_BYTES = 8 + 1
"""Per scored token: its label gathered as int64, and one bool of the mask."""


def compacted(head: Head) -> tuple[Term, ...]:
    """What gathering the scored tokens keeps."""
    if not head.loss.gathers_scored_rows:
        return ()
    return (
        wide(COMPACT, head, item_bytes=FP32_BYTES if head.casts_tiles else head.item_bytes),
        vectors(head, COMPACT_BYTES, tensors=2),
    )


LOWERED_ROWS = Formula(
    "hidden states of a tile in half precision",
    "item_bytes * minimum(tokens, token_tile) * hidden",
    category="logits",
    source="trl 1.16.0 trl/kernels/chunked_logprob.py, hidden_chunk; read 2026-11",
    why="Autocast computes in another dtype than the hidden states have, so each tile's rows are "
    "cast.",
)
LOWERED_COLUMNS = Formula(
    "head's weight of a tile in half precision",
    "item_bytes * minimum(vocab, columns) * hidden",
    category="logits",
    source="trl 1.16.0 trl/kernels/chunked_logprob.py, w_chunk; read 2026-11",
    why="The fp32 weight is cast tile by tile; in a backward the previous tile's copy is still "
    "alive.",
)


def lowered_rows(head: Head) -> tuple[Term, ...]:
    """A tile's hidden states as its product takes them."""
    return (narrow(LOWERED_ROWS, head, token_tile=TOKEN_TILE),) if head.casts_tiles else ()


def lowered_columns(head: Head, *, tiles: int = 1) -> tuple[Term, ...]:
    """The columns of so many tiles as products take them."""
    if not (head.casts_tiles or head.casts_columns):
        return ()
    return (narrow(LOWERED_COLUMNS, head, columns=tiles * VOCABULARY_TILE),)


WIDE_ROWS = Formula(
    "rows of the tile in fp32",
    "4 * copies * minimum(tokens, fp32_rows) * vocabulary_tile",
    category="logits",
    source="planner/steps/vocabulary/tiles.py",
    why="Logits of a few rows, or the gradient of these logits; entropy and soft cap need two "
    "copies.",
)
ROW_NUMBERS = Formula(
    "numbers of those rows",
    "bytes_per_token * minimum(tokens, fp32_rows)",
    category="logits",
    source="planner/steps/vocabulary/tiles.py",
    why="The target tokens' column indices, and a tile's maxima and sums before they are merged "
    "into the running ones.",
)


def widened(head: Head, *, twice: bool, per_token: int) -> tuple[Term, ...]:
    """What is in fp32 of the tile at hand, unless a kernel has it in registers."""
    if head.loss.triton_tiles:
        return ()
    return (
        wide(
            WIDE_ROWS,
            head,
            copies=1 + twice,
            fp32_rows=FP32_ROWS,
            vocabulary_tile=VOCABULARY_TILE,
        ),
        wide(ROW_NUMBERS, head, bytes_per_token=per_token, fp32_rows=FP32_ROWS),
    )


def kept(head: Head) -> tuple[Term, ...]:
    """What scoring leaves for the backward: log-probabilities, and what they came from."""
    saved = 2 + scores(head)
    return (
        *compacted(head),
        vectors(head, saved * FP32_BYTES, tensors=saved),
    )


def tile(head: Head) -> Term:
    """The one buffer over the vocabulary."""
    return narrow(TILE, head, token_tile=TOKEN_TILE, vocabulary_tile=VOCABULARY_TILE)


def scores(head: Head) -> bool:
    """Scoring also returns an entropy: asked for by the loss, or always."""
    return head.entropy or head.loss.always_entropy


def forward(
    head: Head, *, entropy: bool | None = None, certainty: bool = False
) -> tuple[Instant, ...]:
    """All tiles are folded; log-probability (and entropy, self-certainty) are being read off.

    ``entropy`` says whether the kernel returns one where the loss does not decide it.
    """
    wanted = scores(head) if entropy is None else entropy
    count = RUNNING_IN_PLAIN + wanted + certainty
    if head.loss.triton_tiles:
        # log_z and log-probability; the quotient and entropy; the mean logit.
        count = RUNNING_VECTORS + (4 if wanted else 2) + certainty
    there = (tile(head), *compacted(head), *lowered_rows(head))
    read = (
        *there,
        *widened(head, twice=wanted, per_token=ROW_FORWARD + FP32_BYTES * wanted),
        vectors(head, count * FP32_BYTES, tensors=count),
    )
    running = vectors(head, RUNNING_VECTORS * FP32_BYTES, tensors=RUNNING_VECTORS)
    columns = lowered_columns(head)
    product = (Instant(name="a tile's product", terms=(*there, running, *columns)),)
    return (Instant(name="fold of the tiles", terms=read), *(product if columns else ()))


def without_gradient(
    head: Head, *, with_entropy: bool, with_certainty: bool = False
) -> tuple[Instant, ...]:
    """The same fold; the caller says whether an entropy or self-certainty comes of it."""
    return forward(head, entropy=with_entropy, certainty=with_certainty)


def backward(head: Head) -> tuple[Instant, ...]:
    """A tile's gradient in the making, and the fp32 gradients being cast to the weights' dtype."""
    saved = 1 + scores(head)
    incoming = 1 + head.entropy
    small = vectors(
        head, (saved + incoming) * FP32_BYTES, scalars=8, tensors=saved + incoming + 2
    )
    there: tuple[Term, ...] = (
        tile(head),
        *compacted(head),
        *lowered_rows(head),
        hidden_gradient(head, item_bytes=FP32_BYTES, label="hidden states' fp32 gradient"),
        *head_gradient(head, item_bytes=FP32_BYTES, label="head's fp32 gradient"),
        small,
    )
    cast: tuple[Term, ...] = ()
    if head.item_bytes < FP32_BYTES and not head.casts_tiles:
        cast = (hidden_gradient(head), *head_gradient(head))
    columns = lowered_columns(head, tiles=2)
    last = lowered_columns(head) if cast else columns
    instants = (Instant(name="cast of the gradients", terms=(*there, *last, *cast)),)
    rows = widened(head, twice=head.entropy or head.softcap, per_token=ROW_BACKWARD)
    if not rows and last is columns:
        return instants
    return (*instants, Instant(name="tile's gradient", terms=(*there, *columns, *rows)))
