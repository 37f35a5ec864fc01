"""The walks of docs/usability.md that no other test takes: what the table says of today holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page
from walks import WALKS, taken

TABLE = Path(__file__).parents[2] / "docs" / "usability.md"
ROW = re.compile(r"^\| (?P<walk>[^|]+) \|[^|]*\| (?P<clicks>\d+) \+ (?P<keys>\d+) \|", re.M)
COMES_OF_IT = {
    "8 × A100 40GB, 14B, 8 k": r"^(Fits|Tight)\. Peak .*all that was asked for\.$",
    "the cheapest of eight cards": r"^Cheapest: (?!.*Instinct).*\$.*too close to call",
    "keyboard only": r"Edited: (Tight|Out of memory|Does not run|Does not start).*Applied: Fits",
    "cheapest 32B, 16 k, up to 64 GPUs": r"^Knee of .* cost, .* faster.*As a plan: Fits.*A script",
    "420 px": r"in sight at first, in sight while editing\.$",
}
"""Walks, and what a result says."""


def _today() -> dict[str, tuple[int, int]]:
    return {
        row["walk"].strip(): (int(row["clicks"]), int(row["keys"]))
        for row in ROW.finditer(TABLE.read_text("utf-8"))
    }


def test_the_table_has_every_walk_in_its_order() -> None:
    assert list(_today()) == list(WALKS)


@pytest.mark.parametrize("name", COMES_OF_IT)
def test_a_walk_takes_what_the_table_says(page: Page, server: str, name: str) -> None:
    walked = taken(page, server, name)
    assert re.search(COMES_OF_IT[name], walked.result), walked.result
    assert (walked.clicks, walked.keys) == _today()[name]
