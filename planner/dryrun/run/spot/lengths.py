"""Which lengths a decoder's layers are measured at, and by which laws they may grow with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from planner.dryrun.run.spot.fields import POSITIONS
from planner.dryrun.run.spot.language import first, stated
from planner.dryrun.run.tracker import Tracker
from planner.formulas.length_law import CHUNK, STEP, WINDOW, Law
from planner.steps import models

SHORTEST, LOOPED, LONGEST = 256, 32, 1 << 17
"""Tokens of the shortest row that is solved from: whole chunks of most scans; where every token is
a turn, as many as kernels of attention round to. And of the longest that is looked at."""
ODD = 16
"""Tokens beyond whole chunks: a quarter of the smallest, which scans that do not call theirs so
have (64 by default in transformers 5.23.0 and in flash-linear-attention)."""
OPERATORS = 750_000
"""No longer row is looked at that would take a setting's passes beyond so many, some 15 seconds:
counted, so that the answer is that of any machine."""
CHUNKS = ("chunk_size", "block_size")
"""What layers call the tokens of a chunk, which scans pad rows to or take in turns."""
WINDOWS = (
    *("sliding_window", "attention_window_size", "attention_chunk_size", "keep_window_size"),
    "index_topk",
)
"""What configs call the tokens that one token sees at most."""


class Span(NamedTuple):
    """The lengths of one decoder."""

    lengths: tuple[int, ...]
    """Three that laws are solved from, each twice the one before."""
    longest: int
    laws: tuple[Law, ...]
    """Those that its modules and its config suggest, the likeliest first."""


def span_of(model: nn.Module, tracker: Tracker, shape: str) -> Span:
    """The span of a model on its device; short where a loop takes a turn for each token."""

    def operators(tokens: int) -> int:
        before = tracker.operators
        ids = torch.zeros((2, tokens), dtype=torch.int64, device=next(model.parameters()).device)
        with torch.no_grad():
            mask: Any = {"attention_mask": torch.ones_like(ids)} if shape == "padded" else {}
            models.hidden_states(model, {"input_ids": ids, **mask})
        return tracker.operators - before

    settings = models.causal(model).config
    modules = list(models.layers(model).modules())
    chunks = {getattr(each, name, 0) for each in modules for name in CHUNKS}
    chunk = max((each for each in chunks if isinstance(each, int)), default=1) or 1
    loops = operators(32) > 1.2 * operators(16)
    positions = min(int(first(settings, POSITIONS) or LONGEST), LONGEST)
    lengths = lengths_for(positions, chunk, LOOPED if loops else SHORTEST)
    windows = {int(stated(settings, name) or 0) for name in WINDOWS} - {0} if not loops else ()
    laws = [Law(WINDOW, size) for size in sorted(windows) if 4 * size <= positions]
    chunked = [Law(CHUNK, chunk)] * (chunk > 1)
    hidden = [Law(form, 4 * ODD) for form in (STEP, CHUNK)]
    # Rows behind a model's positions run here, and may keep to another law (Doge's window).
    return Span(lengths, min(2 * positions, LONGEST), (*chunked, Law(), *hidden, *laws))


def lengths_for(longest: int, chunk: int = 1, shortest: int = SHORTEST) -> tuple[int, ...]:
    """Three lengths within a model's positions, of two whole chunks and more where those fit."""
    whole = chunk * max(1 + (chunk > 1), -(-shortest // chunk))
    if (8 if chunk == 1 else 4) * whole > longest:
        whole = 1 << max((longest // 8).bit_length() - 1, 0)
    if whole < 4:
        raise ValueError(f"{longest} positions are too few for a measurement")
    return whole, 2 * whole, 4 * whole


def held_out(span: Span, tracker: Tracker) -> Iterator[int]:
    """Lengths to hold laws to: one between those that they are solved from, then longer ones.

    Each is given while twice the operators that the last one took are left.
    """
    start = last = tracker.operators
    tokens, later = 3 * span.lengths[0] + ODD, 2 * span.lengths[-1]
    while tokens <= span.longest and 3 * tracker.operators - 2 * last <= start + OPERATORS:
        last = tracker.operators
        yield tokens
        tokens, later = later, 2 * later
