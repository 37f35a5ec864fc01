"""``python -m planner gpus``: the catalog's cards."""

from __future__ import annotations

import argparse
import json

from planner import catalog
from planner.catalog import Gpu
from planner.cli.table import table
from planner.units import read_gib


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("gpus", help="cards that a plan can name")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints every row; the reason stands beside those whose usable bytes are unknown."""
    cards = catalog.gpus()
    if arguments.json:
        print(json.dumps([_json(card) for card in cards], indent=2))
        return 0
    cells = [
        (
            card.key,
            card.name,
            "?" if card.budget_bytes is None else read_gib(card.budget_bytes),
            _price(card),
            card.unsupported_reason,
        )
        for card in cards
    ]
    header = ("gpu", "name", "usable GiB", "USD/hour", "unsupported")
    print(table(header, cells, right=(2, 3)))
    return 0


def _price(card: Gpu) -> str:
    if card.price is None:
        return "?"
    return f"{card.price.usd_per_hour_low:.2f}-{card.price.usd_per_hour_high:.2f}"


def _json(card: Gpu) -> dict[str, object]:
    return {
        "key": card.key,
        "name": card.name,
        "vendor": card.vendor,
        "budget_bytes": card.budget_bytes,
        "bandwidth_bytes_per_second": card.bandwidth_bytes_per_second,
        "bf16_flops_per_second": card.bf16_flops_per_second,
        "interconnect": card.interconnect or None,
        "interconnect_bytes_per_second": card.interconnect_bytes_per_second,
        "price": None if card.price is None else card.price.model_dump(mode="json"),
        "unsupported_reason": card.unsupported_reason or None,
        "sources": list(card.sources),
        "date": card.date,
    }
