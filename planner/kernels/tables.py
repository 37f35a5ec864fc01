"""Whose measured kernels a card's times rest on, and the grids made of them, read on first use.

A table holds milliseconds of one card (``planner/catalog/kernels``); a grid holds shares, roofline
by measured time, at most 1: tables were measured again and again on the same operands, part of
which stay in the second-level cache, and no kernel of a real step finds its weights there. A card
without tables borrows the shares of the card with tables that is nearest in compute by bandwidth.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from planner.catalog.gpu_catalog import Gpu
from planner.catalog.gpu_catalog import gpu as catalog_gpu

SOURCE = "aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), distilled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Whose measured kernels stand behind a card's times."""

    own: bool
    """Measured on this very card."""
    card: str
    """Catalog key of the card that was measured."""
    version: str
    """Engine whose kernels they are."""

    @property
    def words(self) -> str:
        """For a sentence."""
        whose = "this card" if self.own else self.card
        return f"kernels measured on {whose} under {self.version}"


@cache
def _index() -> Mapping[str, Mapping[str, Any]]:
    text = (files("planner.catalog") / "kernels" / "index.json").read_text("utf-8")
    found: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return found


@cache
def arrays(card: str) -> Mapping[str, np.ndarray]:
    """Everything that was distilled of one card, as its file holds it."""
    with (files("planner.catalog") / "kernels" / f"{card}.npz").open("rb") as file:
        return dict(np.load(file, allow_pickle=False))


@cache
def lender(key: str, table: str = "products_bf16") -> str | None:
    """Catalog key of the card whose table a card uses; None where its rates are unknown."""
    if key in _index() and table in arrays(key):
        return key
    try:
        ratio = _ratio(catalog_gpu(key))
    except ValueError:
        return None
    if ratio is None:
        return None
    lenders = [card for card in _index() if table in arrays(card)]

    def distance(card: str) -> tuple[float, str]:
        other = _ratio(catalog_gpu(card))
        assert other is not None
        return abs(math.log(ratio / other)), card

    return min(lenders, key=distance)


def _ratio(gpu: Gpu) -> float | None:
    """FLOPs by byte at which a card's two limits meet."""
    flops, bandwidth = gpu.bf16_flops_per_second, gpu.bandwidth_bytes_per_second
    flops = flops or gpu.fp16_flops_per_second
    return flops / bandwidth if flops and bandwidth else None


def tables_of(gpu: Gpu) -> Tables | None:
    """Whose tables a card's times rest on; None where its peaks are unknown."""
    card = lender(gpu.key)
    if card is None:
        return None
    return Tables(own=card == gpu.key, card=card, version=_index()[card]["version"])
