"""Prices by provider: every row is a card's, with provider, date and source; no row is invented."""

from __future__ import annotations

import json
from importlib.resources import files

from planner import catalog
from planner.catalog.offers import offers


def test_every_offer_is_of_a_known_card_and_dated_with_a_source() -> None:
    every = offers()
    assert len(every) > 30
    assert {one.gpu for one in every} <= {card.key for card in catalog.gpus()}
    assert all(one.provider and one.date and one.source for one in every)
    rows = [(one.gpu, one.provider, one.kind, one.usd_per_hour) for one in every]
    assert len(set(rows)) == len(rows)


def test_offers_are_the_cheapest_first_and_filtered() -> None:
    found = offers("h100-80gb")
    assert [one.usd_per_hour for one in found] == sorted(one.usd_per_hour for one in found)
    assert {one.provider for one in offers(provider="RunPod")} == {"RunPod"}
    assert {one.kind for one in offers("b200-180gb", kind="spot")} == {"spot"}
    assert offers("t4") == ()


def test_a_figure_that_is_not_a_copy_of_its_source_stands_in_the_list_prices_source() -> None:
    """Sources of ``gpus.json`` quote most figures: what one row says, the other does."""
    rows = json.loads((files("planner.catalog") / "gpus.json").read_bytes())["gpus"]
    listed = {row["key"]: row["price"] for row in rows}
    for one in offers():
        price = listed[one.gpu]
        assert price is not None, one
        within = 0.98 * price["usd_per_hour_low"] <= one.usd_per_hour <= price["usd_per_hour_high"]
        assert within or one.kind == "spot", one
        assert one.provider.lower() in json.dumps(price).lower() or "deploybase" in one.source, one
