"""Seconds of one layer's experts on one GPU, by their shape and the tokens that meet them.

What was measured: vLLM's fused experts (three products, the activation between them, the sum over
a token's experts; which experts a token meets is given), replayed from a CUDA graph where it could
be captured. fp8 has a scale for each block of 128 x 128 weights, as verl runs it, on every card
that was measured so (``docs/kernels.md``). Tokens fall on experts by a power law of exponent 1.2,
so that imbalance on one GPU is in the share; the router, shared experts and the exchange between
GPUs are not. Of experts that are spread over GPUs the one with the most tokens was measured, so
that waiting for it is in the share.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np

from planner.catalog.gpu_catalog import Gpu
from planner.catalog.gpu_catalog import gpu as catalog_gpu
from planner.kernels.grid import CURVES, Curve, Floats
from planner.kernels.products import COMPUTE, RESULT_BYTES, TABLE_OF
from planner.kernels.question import Question, lent, limits, log_shares, positive, seconds_of
from planner.kernels.tables import Loan, arrays
from planner.numeric import Num, maximum
from planner.values.dtypes import WITH_FP8

NEIGHBOURS = 4
"""Measured shapes that a shape between them is averaged from."""


def work(
    tokens: Num,
    hidden: Num,
    intermediate: Num,
    experts: Num,
    per_token: Num,
    spread: Num,
    dtype: str,
) -> tuple[Num, Num]:
    """FLOPs, and bytes: weights of every expert that some token meets, rows in and out.

    Of one GPU of ``spread``, if all had the same.
    """
    # Experts that tokens meet when they choose evenly; a power is slow of an array.
    passed = maximum(1.0 - 1.0 * per_token / experts, 1e-300)
    several = isinstance(passed, np.ndarray) or isinstance(tokens, np.ndarray)
    missed = np.exp(tokens * np.log(passed)) if several else passed**tokens
    met = experts * (1.0 - missed) / spread
    weights = 3.0 * met * hidden * intermediate * WITH_FP8[dtype]
    each = 1.0 * per_token / spread
    rows = tokens * (1.0 + each) * (hidden + intermediate) * RESULT_BYTES[dtype]
    return 6.0 * tokens * each * hidden * intermediate, weights + rows


def kind_of(spread: Num) -> str:
    """Which tables have experts that are spread over so many GPUs."""
    return "experts" if np.all(np.asarray(spread) == 1) else "spread"


@cache
def curves(card: str, dtype: str, kind: str = "experts") -> tuple[Floats, tuple[Curve, ...]]:
    """Logarithms of the measured shapes, and shares by tokens an expert of each."""
    found = arrays(card)
    shapes, tokens = found[f"{kind}_{dtype}_shapes"], found[f"{kind}_{dtype}_tokens"]
    if kind == "experts":
        shapes = np.append(shapes, np.ones((len(shapes), 1), shapes.dtype), axis=1)
    peaks = limits(catalog_gpu(card), dtype)
    assert peaks is not None
    found_curves = []
    for shape, row in zip(shapes, found[f"{kind}_{dtype}"].astype(float), strict=True):
        known = ~np.isnan(row)
        hidden, intermediate, experts, per_token, spread = map(float, shape)
        counts = tokens[known].astype(float)
        asked = work(counts, hidden, intermediate, experts, per_token, spread, dtype)
        shares = log_shares(peaks, *asked, row[known])
        found_curves.append(Curve(np.log(counts * per_token / experts), shares))
    return np.log(shapes.astype(float)), tuple(found_curves)


def nearest(card: str, dtype: str, *shape: float) -> tuple[list[int], Floats]:
    """Rows of the nearest measured shapes, and their squared distances in log space."""
    known = curves(card, dtype, kind_of(shape[4]))[0]
    apart = np.sum((known - np.log(shape)) ** 2, axis=1)
    rows = np.argsort(apart, kind="stable")[:NEIGHBOURS]
    return rows.tolist(), apart[rows]


def _between(card: str, dtype: str, *shape: float) -> Curve:
    """Shares by tokens an expert between the nearest shapes, by inverse squared distance."""
    measured = curves(card, dtype, kind_of(shape[4]))[1]
    rows, apart = nearest(card, dtype, *shape)
    if apart[0] < 1e-9:
        return measured[rows[0]]
    x = measured[rows[0]].x
    lines = [np.interp(x, measured[row].x, measured[row].y) for row in rows]
    return Curve(x, np.average(lines, axis=0, weights=1 / apart))


curve_of: Callable[..., Curve] = lru_cache(CURVES)(_between)
"""The same, kept."""


def question(
    gpu: Gpu,
    *,
    tokens: Num,
    hidden: Num,
    expert_intermediate: Num,
    experts: Num,
    experts_per_token: Num,
    spread: Num = 1,
    dtype: str,
    training: bool = False,
) -> Question | None:
    """The experts as a question."""
    shape = (hidden, expert_intermediate, experts, experts_per_token, spread)
    positive(tokens=tokens, hidden=hidden, expert_intermediate=expert_intermediate)
    positive(experts=experts, experts_per_token=experts_per_token, spread=spread)
    if np.any(experts_per_token > experts):
        raise ValueError("experts_per_token: a token meets no more experts than there are.")
    table = TABLE_OF.get(dtype, dtype)
    found = lent(gpu, dtype, f"{kind_of(spread)}_{table}")
    if found is None:
        return None
    peaks, whose = found
    filling = tokens * (1.0 * experts_per_token / experts)
    stretched = (hidden, expert_intermediate * whose.stretch, *shape[2:])
    flops, moved = work(tokens, *shape, dtype)

    def share() -> Num:
        if np.ndarray not in map(type, shape):
            return curve_of(whose.card, table, *stretched)(filling)
        return _by_shape(whose, table, filling, *stretched)

    return Question(gpu, peaks, whose, flops, moved, COMPUTE[training], share)


experts_seconds = seconds_of(question)
"""Seconds of the forward of one layer's routed experts for ``tokens`` tokens.

Of a slice of tensor parallelism ``expert_intermediate`` is the slice's; ``spread`` are the GPUs
that have the experts among them, all of which see every token.
"""


def _by_shape(whose: Loan, table: str, filling: Num, *shape: Num) -> Floats:
    """Shares where the shape itself varies: one curve for each shape that occurs."""
    sizes = np.broadcast_arrays(*shape)
    found, which = np.unique(
        np.stack([size.ravel() for size in sizes]), axis=1, return_inverse=True
    )
    at, index = np.broadcast_arrays(filling, which.reshape(sizes[0].shape))
    share: Floats = np.empty(at.shape)
    for number, own in enumerate(found.T.tolist()):
        here = index == number
        share[here] = curve_of(whose.card, table, *own)(at[here])
    return share
