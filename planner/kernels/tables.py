"""Whose measured kernels a card's times rest on, and the arrays of them, read on first use.

A card without tables borrows. Who lends was decided by leaving one card out at a time
(``docs/kernels.md``): cards of the same compute capability come first, then all; among them the
one nearest in compute by bandwidth. The lender is asked about a kernel that lasts as long as the
borrower's: one size is multiplied by the ratio of bandwidths, since what a kernel takes beside its
work (filling, draining, the last wave) is time, not a share. And how much of its datasheet's peak a
card reaches at all (power, a rate that is halved for accumulation in fp32) is its own: where the
largest products of both were published, the peak is scaled by what they reach of theirs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from planner.catalog.gpu_catalog import Gpu
from planner.catalog.gpu_catalog import gpu as catalog_gpu

SOURCE = "aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), distilled: planner/catalog/kernels"


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
        if self.own:
            return f"kernels measured on this card under {self.version}"
        return f"shares borrowed from {self.card}, measured under {self.version}"


class Loan(NamedTuple):
    """A table and the factor on one size at which it is asked."""

    card: str
    stretch: float
    """Bandwidth of the lender by that of the borrower; 1 for a card's own table."""
    gain: float = 1.0
    """Share of its peak that the borrower's largest products reach by the lender's; 1 where either
    is unknown."""


@cache
def _index() -> Mapping[str, Mapping[str, Any]]:
    text = (files("planner.catalog") / "kernels" / "index.json").read_text("utf-8")
    found: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return found


@cache
def arrays(card: str) -> Mapping[str, npt.NDArray[Any]]:
    """Everything that was distilled of one card, as its file holds it."""
    with (files("planner.catalog") / "kernels" / f"{card}.npz").open("rb") as file:
        return dict(np.load(file, allow_pickle=False))


@cache
def loan(key: str, table: str) -> Loan | None:
    """Whose table a card of the catalog uses; None where its rates are unknown."""
    owners = [card for card, entry in _index().items() if table in entry["tables"]]
    if key in owners:
        return Loan(key, 1.0)
    try:
        own = catalog_gpu(key)
    except ValueError:
        return None
    return nearest(own, owners) if _ratio(own) else None


def nearest(own: Gpu, owners: Sequence[str]) -> Loan:
    """The one of these cards that lends to a card whose peaks are known."""

    def distance(card: str) -> tuple[bool, float, str]:
        other = catalog_gpu(card)
        stranger = own.compute_capability != other.compute_capability
        return stranger, abs(math.log(_ratio(own) / _ratio(other))), card

    card = min(owners, key=distance)
    lender = catalog_gpu(card)
    reached, theirs = _reached(own), _reached(lender)
    gain = reached / theirs if reached and theirs else 1.0
    return Loan(card, _bandwidth(lender) / _bandwidth(own), gain)


def _ratio(gpu: Gpu) -> float:
    """FLOPs by byte at which a card's two limits meet; 0 where either is unknown."""
    flops = gpu.bf16_flops_per_second or gpu.fp16_flops_per_second or 0.0
    bandwidth = _bandwidth(gpu)
    return flops / bandwidth if bandwidth else 0.0


def _reached(gpu: Gpu) -> float:
    """Share of the bf16 peak that the largest products reach; 0 where it is unknown."""
    peak = gpu.bf16_flops_per_second
    return (gpu.reached_flops_per_second or 0.0) / peak if peak else 0.0


def _bandwidth(gpu: Gpu) -> float:
    return gpu.bandwidth_bytes_per_second or 0.0


def version_of(card: str) -> str:
    """Engine under which a card's kernels were measured."""
    version: str = _index()[card]["version"]
    return version


@lru_cache(maxsize=128)
def tables_of(gpu: Gpu) -> Tables | None:
    """Whose tables a card's times rest on; None where its peaks are unknown."""
    found = loan(gpu.key, "products_bf16")
    if found is None:
        return None
    return Tables(own=found.card == gpu.key, card=found.card, version=version_of(found.card))
