"""``python -m planner gpus``: the catalog's cards."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from planner import catalog
from planner.catalog import Gpu
from planner.catalog.schema import Price
from planner.cli.answer import known, may_be_json, show, table
from planner.units import read_gib

FIELDS = (
    *("key", "name", "vendor", "budget_bytes", "bandwidth_bytes_per_second"),
    *("bf16_flops_per_second", "interconnect", "interconnect_bytes_per_second", "price"),
    *("unsupported_reason", "sources", "date"),
)


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    may_be_json(parser, "rows as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints every row; the reason stands beside those whose usable bytes are unknown."""
    return show(arguments, catalog.gpus(), _json, _text)


def _text(cards: Sequence[Gpu]) -> str:
    rows = [
        (
            card.key,
            card.name,
            known(read_gib, card.budget_bytes),
            known(_price, card.price),
            card.unsupported_reason,
        )
        for card in cards
    ]
    return table(("gpu", "name", "usable GiB", "USD/hour", "unsupported"), rows, right=(2, 3))


def _price(price: Price) -> str:
    return f"{price.usd_per_hour_low:.2f}-{price.usd_per_hour_high:.2f}"


def _json(cards: Sequence[Gpu]) -> list[dict[str, object]]:
    """What is not known is None; so is an empty text."""
    return [
        {
            **{name: getattr(card, name) or None for name in FIELDS},
            "price": None if card.price is None else card.price.model_dump(mode="json"),
        }
        for card in cards
    ]
