"""Which lengths a decoder's layers are measured at, and by which laws they may grow with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from planner.dryrun.run.spot.fields import POSITIONS
from planner.dryrun.run.spot.language import first, stated
from planner.dryrun.run.tracker import Tracker
from planner.formulas.length_law import CHUNK, WINDOW, Law
from planner.steps import models

SHORTEST = 256
"""Tokens of the shortest row of three, each twice the one before: whole chunks of most scans."""
LOOPED = 32
"""The same where every token is a turn: kernels of attention round to as many."""
LONGEST = 1 << 17
"""Tokens of the longest row that is looked at."""
ODD = 48
"""Tokens beyond whole chunks."""
OPERATORS = 750_000
"""No longer row is looked at that would take a setting's passes beyond so many, some 15 seconds:
counted, so that the answer is that of any machine."""
CHUNKS = ("chunk_size", "block_size")
"""What layers call the tokens of a chunk, which scans pad rows to or take in turns."""
WINDOWS = ("sliding_window", "attention_window_size", "attention_chunk_size", "index_topk")
"""What configs call the tokens that one token sees at most."""


@dataclass(frozen=True, slots=True)
class Span:
    """The lengths of one decoder."""

    lengths: tuple[int, ...]
    """Three that laws are solved from, each twice the one before."""
    positions: int
    laws: tuple[Law, ...]
    """Those that its modules and its config suggest, the likeliest first."""

    def lengths_of(self, law: Law) -> tuple[int, ...]:
        """Three lengths to solve a law from: of one with a window, beyond that."""
        if law.form == WINDOW and law.size > self.lengths[0]:
            return 2 * law.size, 4 * law.size, 8 * law.size
        return self.lengths

    def held_out(self, tracker: Tracker) -> Iterator[int]:
        """Lengths to hold laws to: one between those that they are solved from, then longer ones.

        Each is given while twice the operators that the last one took are left.
        """
        start = last = tracker.operators
        tokens = 3 * self.lengths[0] + ODD
        while tokens <= min(self.positions, LONGEST):
            yield tokens
            tokens = 2 * (self.lengths[-1] if tokens % self.lengths[0] else tokens)
            if 3 * tracker.operators - 2 * last > start + OPERATORS:
                return
            last = tracker.operators


def span_of(model: nn.Module, tracker: Tracker, shape: str) -> Span:
    """The span of a model on its device; short where a loop takes a turn for each token."""
    settings = models.causal(model).config
    positions = int(first(settings, POSITIONS) or 1 << 20)
    modules = list(models.layers(model).modules())
    chunks = {getattr(each, name, 0) for each in modules for name in CHUNKS}
    chunk, *others = sorted(each for each in chunks if isinstance(each, int) and each > 1) or (1,)
    looped = _operators(model, tracker, shape, 32) > 1.2 * _operators(model, tracker, shape, 16)
    lengths = lengths_for(positions, 1 if others else chunk, LOOPED if looped else SHORTEST)
    laws = [Law(CHUNK, chunk)] * (chunk > 1 and not others and not lengths[0] % chunk)
    windows = {int(stated(settings, name) or 0) for name in WINDOWS}
    windowed = [Law(WINDOW, size) for size in sorted(windows - {0}) if 8 * size <= positions]
    return Span(lengths, positions, (*laws, Law(), *windowed * (not looped)))


def _operators(model: nn.Module, tracker: Tracker, shape: str, tokens: int) -> int:
    before = tracker.operators
    ids = torch.zeros((2, tokens), dtype=torch.int64, device=next(model.parameters()).device)
    with torch.no_grad():
        mask: dict[str, Any] = {"attention_mask": torch.ones_like(ids)} if shape == "padded" else {}
        models.hidden_states(model, {"input_ids": ids, **mask})
    return tracker.operators - before


def lengths_for(positions: int, chunk: int = 1, shortest: int = SHORTEST) -> tuple[int, ...]:
    """Three lengths of whole chunks, at least two each, within a model's positions."""
    whole = chunk * max(2 if chunk > 1 else 1, -(-shortest // chunk))
    if (4 if chunk > 1 else 8) * whole > positions:
        whole = 1 << max((positions // 8).bit_length() - 1, 0)
    if whole < 4:
        raise ValueError(f"{positions} positions are too few for a measurement")
    return whole, 2 * whole, 4 * whole
