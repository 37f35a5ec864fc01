"""Seconds of one layer's attention, prefill and decode, by its shape.

What was measured: the forward of the attention that vLLM picks on that card (FlashAttention 3 on
Hopper, 2 on Ampere, Ada and RTX Blackwell, TRT-LLM's kernels on B200 and its kin) over its paged
cache, the writing of new keys and values included, replayed alone from a CUDA graph. Projections,
rotation and norms are not in it. A graph of one operation costs some microseconds by itself: below
about 20 microseconds a table says more of the replay than of the kernel.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from planner.catalog.gpu_catalog import Gpu
from planner.catalog.gpu_catalog import gpu as catalog_gpu
from planner.kernels.grid import Grid
from planner.kernels.products import COMPUTE, TABLE_OF
from planner.kernels.question import (
    Asked,
    Limits,
    Question,
    lent,
    limits,
    log_shares,
    positive,
    seconds_of,
)
from planner.kernels.tables import Loan, arrays, loan
from planner.numeric import Num, maximum, minimum, where
from planner.values.dtypes import WITH_FP8

Kind = Literal["prefill", "decode"]
AXES = ("head_dim", "group", "lanes", "length")
"""Head size, query heads a key head, lanes, length. Lanes are sequences times query heads in
prefill and times key/value heads in decode: what runs beside one another."""
WINDOW_AXES = ("window", *AXES)
KERNEL_DTYPE = {dtype: "bf16" if dtype == "fp8" else dtype for dtype in TABLE_OF}
"""fp8 weights leave attention in bf16."""
HOLES = (2, 3, 1, 0)
"""Axes along which holes are filled, in turn: many long sequences were never measured, and fewer
of that length come nearer to their share than as many shorter ones do."""


def pairs(tokens: Num, prefix_tokens: Num, window: Num) -> Num:
    """Query-key pairs of one sequence and head under a causal mask; a window of 0 is none."""
    whole = tokens * (prefix_tokens + (tokens + 1) / 2)
    if not isinstance(window, np.ndarray) and not window:
        return whole
    # Of what position i sees, a window leaves out max(i - window, 0).
    cut = maximum(prefix_tokens + tokens - window, 0)
    before = maximum(prefix_tokens - window, 0)
    return where(window > 0, whole - (cut * (cut + 1) - before * (before + 1)) / 2, whole)


def prefill_work(
    lanes: Num, tokens: Num, group: Num, head_dim: Num, prefix: Num, window: Num, dtype: str
) -> tuple[Num, Num]:
    """FLOPs, and bytes: queries and results, keys and values once."""
    flops = 4.0 * lanes * head_dim * pairs(tokens, prefix, window)
    moved = lanes * head_dim * (2.0 * tokens + 2.0 * (tokens + prefix) / group)
    return flops, moved * WITH_FP8[dtype]


def decode_work(
    lanes: Num, context: Num, group: Num, head_dim: Num, value_bytes: float
) -> tuple[Num, Num]:
    """FLOPs and bytes of one token a sequence: its keys and values are read once."""
    lanes = 1.0 * lanes * head_dim
    return 4.0 * lanes * group * context, lanes * (2.0 * value_bytes * context + 4.0 * group)


@cache
def grid(card: str, kind: Kind, dtype: str) -> Grid:
    """Shares measured on a card without a window, along ``AXES``."""
    found = arrays(card)
    axes = tuple(found[f"{kind}_{axis}"] for axis in AXES)
    measured = found[f"{kind}_{dtype}"].astype(np.float64)
    peaks = limits(catalog_gpu(card), "bf16")
    assert peaks is not None
    shares = log_shares(peaks, *_table_work(kind, dtype, axes, 0), measured)
    return Grid(axes, measured, shares, HOLES)


@cache
def window_grid(card: str, kind: Kind, dtype: str) -> Grid:
    """The same by window first; behind the widest one stands attention without a window."""
    found = arrays(card)
    whole = grid(card, kind, dtype)
    widths = found[f"{kind}_{dtype}_widths"]
    windowed = found[f"{kind}_{dtype}_window"].astype(np.float64)
    peaks = limits(catalog_gpu(card), "bf16")
    assert peaks is not None
    shares = [
        log_shares(peaks, *_table_work(kind, dtype, whole.axes, int(width)), measured)
        for width, measured in zip(widths, windowed, strict=True)
    ]
    axes = (np.append(widths, whole.axes[-1][-1]), *whole.axes)
    measured = np.stack([*windowed, whole.milliseconds])
    return Grid(axes, measured, np.stack([*shares, whole.shares]), (3, 4, 2, 1, 0))


def _table_work(
    kind: Kind, dtype: str, axes: tuple[np.ndarray, ...], window: int
) -> tuple[Num, Num]:
    dim, group, lanes, length = np.meshgrid(*(axis.astype(float) for axis in axes), indexing="ij")
    if kind == "prefill":
        return prefill_work(lanes, length, group, dim, 0, window, dtype)
    seen = np.minimum(length, window) if window else length
    return decode_work(lanes, seen, group, dim, WITH_FP8[dtype])


def _asked(
    gpu: Gpu,
    peaks: Limits,
    whose: Loan,
    kind: Kind,
    table: str,
    work: tuple[Num, Num],
    sizes: tuple[Num, ...],
    window: Num,
    training: bool,
) -> Asked:
    """A layer with a window is answered by tables of such layers, at every length."""
    shares = grid(whose.card, kind, table)
    # A window as wide as the longest sequence that was measured cuts nothing.
    cuts = (window > 0) & (window < int(shares.axes[-1][-1]))

    if cuts is False or not np.any(cuts):
        plain = Question(gpu, peaks, whose, *work, COMPUTE[training], lambda: shares(*sizes))
        return plain, shares, sizes
    lender = loan(gpu.key, f"{kind}_{table}_window")
    assert lender is not None
    windowed = window_grid(lender.card, kind, table)
    dim, group, lanes, length = sizes
    cut = (maximum(window, 1), dim, group, lanes / whose.stretch * lender.stretch, length)

    def share() -> Num:
        return windowed(*cut) if np.all(cuts) else where(cuts, windowed(*cut), shares(*sizes))

    lender = lender._replace(gain=whose.gain)
    return Question(gpu, peaks, lender, *work, COMPUTE[training], share), windowed, cut


def prefill_question(
    gpu: Gpu,
    *,
    sequences: Num,
    tokens: Num,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    prefix_tokens: Num = 0,
    window: Num = 0,
    dtype: str,
    training: bool = False,
) -> Asked | None:
    """Prefill as a question, the grid that answers it and the sizes it is asked at."""
    positive(sequences=sequences, tokens=tokens, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    found = lent(gpu, KERNEL_DTYPE.get(dtype, dtype), "prefill_bf16")
    if found is None:
        return None
    peaks, whose = found
    lanes, group = sequences * heads, heads / kv_heads
    work = prefill_work(
        lanes, tokens, group, head_dim, prefix_tokens, window, KERNEL_DTYPE.get(dtype, dtype)
    )
    sizes = (head_dim, group, lanes * whose.stretch, tokens + prefix_tokens)
    return _asked(gpu, peaks, whose, "prefill", "bf16", work, sizes, window, training)


def decode_question(
    gpu: Gpu,
    *,
    sequences: Num,
    context_tokens: Num,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    kv_value_bytes: float,
    window: Num = 0,
    dtype: str,
) -> Asked | None:
    """Decode as a question, the grid that answers it and the sizes it is asked at."""
    positive(sequences=sequences, context_tokens=context_tokens, heads=heads)
    positive(kv_heads=kv_heads, head_dim=head_dim, kv_value_bytes=kv_value_bytes)
    table = "fp8" if kv_value_bytes < 2 else "bf16"
    found = lent(gpu, KERNEL_DTYPE.get(dtype, dtype), f"decode_{table}")
    if found is None:
        return None
    peaks, whose = found
    lanes, group = sequences * kv_heads, heads / kv_heads
    windowed = isinstance(window, np.ndarray) or window
    seen = (
        where(window > 0, minimum(context_tokens, window), context_tokens)
        if windowed
        else context_tokens
    )
    work = decode_work(lanes, seen, group, head_dim, kv_value_bytes)
    sizes = (head_dim, group, lanes * whose.stretch, context_tokens)
    return _asked(gpu, peaks, whose, "decode", table, work, sizes, window, False)


prefill_attention_seconds = seconds_of(prefill_question)
"""Seconds of causal attention of one layer over ``tokens`` new positions of each sequence.

``prefix_tokens`` stand in the cache already (nobody measured that: the share is that of a prefill
as long as both), ``window`` is 0 for none.
"""
decode_attention_seconds = seconds_of(decode_question)
"""Seconds of one layer's attention while every sequence decodes one token.

``context_tokens`` is what each sequence has in its cache, ``window`` is 0 for none.
"""
