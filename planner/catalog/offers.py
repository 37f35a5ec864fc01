"""What named providers ask for a GPU and hour: ``offers.json``, rows with their date and source.

``gpus.json`` has the range of each card's list prices; most of its sources name no provider, so
many cards have no row here.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from planner.catalog.schema import GpuKey, Rate, Row, Text, read_rows


class Offer(Row):
    """One provider's price of one GPU, in USD per hour."""

    gpu: GpuKey
    provider: Text
    kind: Literal["on demand", "spot", "reserved", ""]
    """Empty where the source does not say."""
    usd_per_hour: Rate
    date: Text
    source: Text


class OfferFile(Row):
    """``offers.json``."""

    about: Text
    offers: tuple[Offer, ...]


@cache
def _every() -> tuple[Offer, ...]:
    return read_rows("offers.json", OfferFile).offers


def offers(gpu: str = "", provider: str = "", kind: str = "") -> tuple[Offer, ...]:
    """Offers of a card, of a provider or of a kind, the cheapest first; an empty word is any."""
    asked = {"gpu": gpu, "provider": provider, "kind": kind}
    found = [
        one
        for one in _every()
        if all(getattr(one, name) == value for name, value in asked.items() if value)
    ]
    return tuple(sorted(found, key=lambda one: one.usd_per_hour))
