"""The fused head: tiles of 4096 tokens by 32768 vocabulary entries, no logits at all.

TRL 1.15 and later run it in every trainer, and the plain step's ``fused`` path follows it.
Source: ``trl/kernels/chunked_logprob.py`` of trl 1.16.0, read 2026-10. On a GPU its Triton
kernels work in place on the tile and the gradient products accumulate in fp32 inside cuBLAS, so
nothing else over the vocabulary exists; off a GPU torch operations make several more fp32 tiles,
which these formulas leave out. The plain step (``planner/steps/vocabulary/tiles.py``) has no
kernel of its own and widens 64 rows of the tile at a time.
"""

from __future__ import annotations

from planner.formulas.activations.tape import Gradients, Storage
from planner.formulas.formula import Formula
from planner.formulas.logits.head import Head
from planner.formulas.logits.pieces import HEAD_GRADIENT, HIDDEN_GRADIENT
from planner.formulas.logits.recording import Run, Scored
from planner.numeric import Num, maximum, minimum

TOKEN_TILE = 4096
VOCABULARY_TILE = 32768
FP32_ROWS = 64
"""Rows of a tile that the plain step has in fp32 at the same time: 8 MiB."""

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
    "item_bytes * tile_columns * hidden",
    category="logits",
    source="trl 1.16.0 trl/kernels/chunked_logprob.py, w_chunk; read 2026-11",
    why="The fp32 weight is cast tile by tile; in a backward the previous tile's copy is still "
    "alive.",
)
WIDE_ROWS = Formula(
    "rows of the tile in fp32",
    "item_bytes * row_copies * minimum(tokens, fp32_rows) * vocabulary_tile",
    category="logits",
    source="planner/steps/vocabulary/tiles.py",
    why="Logits of a few rows, or the gradient of these logits; entropy and soft cap need two "
    "copies.",
)
ROW_NUMBERS = Formula(
    "numbers of those rows",
    "copies * item_bytes * minimum(tokens, fp32_rows)",
    category="logits",
    source="planner/steps/vocabulary/tiles.py",
    why="The target tokens' column indices, and a tile's maxima and sums before they are merged "
    "into the running ones.",
)


def sizes(head: Head) -> dict[str, Num]:
    """How large tiles are; the columns of one, and of the one before it."""
    return {
        "token_tile": TOKEN_TILE,
        "vocabulary_tile": VOCABULARY_TILE,
        "fp32_rows": FP32_ROWS,
        "one copy": 1,
        "two copies": 2,
        "a tile": minimum(head.vocab, VOCABULARY_TILE),
        "tile before": minimum(maximum(head.vocab - VOCABULARY_TILE, 0), VOCABULARY_TILE),
    }


def scores(run: Run) -> Scored:
    """All tiles are folded; log-probability (and entropy, self-certainty) are read off."""
    head, kernel = run.head, run.head.way.by_kernel
    kept: list[Storage] = []
    if kernel:  # the rows that carry a label, with it and the mask
        width = "fp32" if head.casts_tiles else run.narrow
        kept = [run.new(COMPACT, width), *run.numbers("int64", "bool")]
    with_entropy = head.entropy or (run.gradient and head.way.entropy_of == "forward")
    # Maximum, sum and target's logit; TRL allocates all of its seven whether asked for or not.
    count = 7 if kernel else 3 + with_entropy + head.certainty
    running = run.numbers(*["fp32"] * count)
    tile, rows = run.new(TILE, run.narrow), lowered_rows(run)
    run.at("a tile's product")
    columns = lowered_columns(run, "a tile")
    del columns
    run.at("fold of the tiles")
    # The target's column, new maximum, shrinking factor and terms of the new sums.
    scratch = fp32_rows(run, with_entropy, "int64", *["fp32"] * (5 + with_entropy))
    del scratch
    if not kernel:
        del tile
    log_z, *found = run.numbers("fp32", "fp32")
    if with_entropy:
        quotient = run.numbers("fp32")
        found += run.numbers("fp32")
        del quotient
    certainty = run.numbers(*["fp32"] * head.certainty)
    saved = [*kept, log_z, *found[1:]]
    made = run.function(run.inputs(), found, lambda arrived: backward(run, arrived), saved)
    return Scored(made[0], made[1] if head.entropy else None)


def backward(run: Run, arrived: Gradients) -> Gradients:
    """A tile's gradient in the making, and the fp32 gradients cast to the weights' dtype."""
    head, formulas = run.head, (HIDDEN_GRADIENT, HEAD_GRADIENT)[: 1 + run.head.weight_trains]
    run.at("tile's gradient")
    labels = ("hidden states' fp32 gradient", "head's fp32 gradient")
    wide = [run.new(*each) for each in zip(formulas, ("fp32", "fp32"), labels, strict=False)]
    tile, rows = run.new(TILE, run.narrow), lowered_rows(run)
    # The target's column, the same clamped, its gradient, and whether it is in the tile.
    scratch = fp32_rows(run, head.entropy or head.softcap, "int64", "int64", "fp32", "bool")
    before = lowered_columns(run, "tile before")
    columns = lowered_columns(run, "a tile")
    del before, scratch
    run.at("cast of the gradients")
    if run.narrow == "fp32" or head.casts_tiles:
        return [*wide]
    return [run.new(formula, run.narrow) for formula in formulas]


def lowered_rows(run: Run) -> list[Storage]:
    """A tile's hidden states as its product takes them."""
    return run.numbers(*[run.narrow] * run.head.casts_tiles, of=LOWERED_ROWS)


def lowered_columns(run: Run, tile: str) -> list[Storage]:
    """A tile's columns of the head as its product takes them."""
    casts = run.head.casts_tiles or run.head.casts_columns
    return [run.new(LOWERED_COLUMNS, run.narrow, part=tile)] if casts else []


def fp32_rows(run: Run, two: bool, *widths: str) -> list[Storage]:
    """A few rows of the tile in fp32, once or twice, and numbers of them; a kernel has neither."""
    if run.head.way.by_kernel:
        return []
    part = "two copies" if two else "one copy"
    return [run.new(WIDE_ROWS, "fp32", part=part), *run.numbers(*widths, of=ROW_NUMBERS)]
