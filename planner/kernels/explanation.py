"""What one look-up rests on: roofline, share, and the measured rows nearest to the shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from planner.catalog.gpu_catalog import Gpu
from planner.kernels import attention, experts, products
from planner.kernels.grid import Grid
from planner.kernels.question import Asked, Question
from planner.kernels.tables import SOURCE, Tables, arrays, version_of

Kind = Literal["products", "prefill", "decode", "experts"]
NEAREST = 4
SHAPE = ("hidden", "expert_intermediate", "experts", "experts_per_token", "spread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row of a table: a shape, what it took on the card that was measured, and its share."""

    sizes: Mapping[str, int]
    milliseconds: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where the seconds of one kernel come from."""

    seconds: float
    roofline_seconds: float
    share: float
    """Roofline by seconds: the table's, or that of the card's own benchmark."""
    limit: Literal["compute", "bandwidth"]
    tables: Tables
    stretch: float
    """Factor on one size at which a lender is asked; 1 where the card was measured itself."""
    gain: float
    """Factor on the card's peak in half precision where it borrows; 1 where it is its own."""
    benchmark: str
    """Versions of the card's own benchmark where it replaces the table's share; else empty."""
    rows: tuple[Measured, ...]
    """Nearest first."""
    source: str


def explain(kind: Kind, gpu: Gpu, **sizes: Any) -> Explanation | None:
    """What the look-up of this kind with these sizes, all of them numbers, rests on.

    None where it gives None; ``ValueError`` for what it refuses.
    """
    if kind == "experts":
        asked = experts.question(gpu, **sizes)
        return None if asked is None else _explained(asked, gpu, _expert_rows(asked, sizes))
    asks: dict[str, Callable[..., Asked | None]] = {
        "products": products.question,
        "prefill": attention.prefill_question,
        "decode": attention.decode_question,
    }
    found = asks[kind](gpu, **sizes)
    if found is None:
        return None
    asked, grid, at = found
    axes = (products.AXES, attention.AXES, attention.WINDOW_AXES)
    names = next(axis for axis in axes if len(axis) == len(at))
    return _explained(asked, gpu, _grid_rows(grid, names, at))


def _explained(asked: Question, gpu: Gpu, rows: tuple[Measured, ...]) -> Explanation:
    seconds, least = float(asked.seconds()), float(asked.roofline_seconds())
    compute = asked.flops / asked.limits[0] >= asked.size_bytes / asked.limits[1]
    card = asked.loan.card
    replaced = asked.own_seconds() is not None and gpu.speeds is not None
    return Explanation(
        seconds=seconds,
        roofline_seconds=least,
        share=least / seconds,
        limit="compute" if compute else "bandwidth",
        tables=Tables(own=card == gpu.key, card=card, version=version_of(card)),
        stretch=asked.loan.stretch,
        gain=asked.loan.gain,
        benchmark=gpu.speeds.words if replaced and gpu.speeds else "",
        rows=rows,
        source=SOURCE,
    )


def _grid_rows(
    grid: Grid, names: tuple[str, ...], sizes: tuple[float, ...]
) -> tuple[Measured, ...]:
    nearest = (sorted(grid.around(*sizes)) or grid.nearest(*sizes))[:NEAREST]
    return tuple(
        Measured(
            sizes={
                name: int(axis[at])
                for name, axis, at in zip(names, grid.axes, index, strict=True)
            },
            milliseconds=math.exp(grid.milliseconds[index]),
            share=math.exp(grid.shares[index]),
        )
        for _, index in nearest
    )


def _expert_rows(asked: Question, sizes: Mapping[str, Any]) -> tuple[Measured, ...]:
    """Of each of the nearest shapes the row whose experts are filled most alike."""
    card, table = asked.loan.card, products.TABLE_OF[sizes["dtype"]]
    found = arrays(card)
    kind = experts.kind_of(sizes.get("spread", 1))
    shape = [float(sizes.get(name, 1)) for name in SHAPE]
    shape[1] *= asked.loan.stretch
    filling = sizes["tokens"] * shape[3] / shape[2]
    rows = []
    for row in experts.nearest(card, table, *shape)[0]:
        own = found[f"{kind}_{table}_shapes"][row]
        curve = experts.curves(card, table, kind)[1][row]
        at = int(abs(curve.x - math.log(filling)).argmin())
        tokens = round(math.exp(curve.points[at]) * own[2] / own[3])
        known = int((found[f"{kind}_{table}_tokens"] == tokens).argmax())
        rows.append(
            Measured(
                sizes={"tokens": tokens, **dict(zip(SHAPE, map(int, own), strict=False))},
                milliseconds=math.exp(found[f"{kind}_{table}"][row, known]),
                share=math.exp(curve.values[at]),
            )
        )
    return tuple(rows)
