"""The walks of docs/usability.md that no other test takes: what the table says of today holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page
from walks import WALKS, taken

TABLE = Path(__file__).parents[2] / "docs" / "usability.md"
ROW = re.compile(r"^\| (?P<walk>[^|]+) \|[^|]*\| (?P<clicks>\d+) \+ (?P<keys>\d+) \|", re.M)
NOT_GREEN = r"\(not in green\)"
"""What a walk says of the verdict on a plan that lacks what was asked for."""
NOT_YET = r"Search: .* cannot .* yet\. Meanwhile"
"""What the search over settings says of it: what is missing, and what to do without."""
COMES_OF_IT = {
    "8 × A100 40GB, 14B, 8 k": r"^(Fits|Tight)\. Peak .*all that was asked for\.$",
    "the cheapest of eight cards": r"^Cheapest: (?!.*Instinct).*\$.*too close to call",
    "keyboard only": r"Edited: (Tight|Out of memory|Does not run|Does not start).*Applied: Fits",
    "cheapest 32B, 16 k, up to 64 GPUs": r"^Knee of .* cost, .* faster.*As a plan: Fits.*A script",
    "420 px": r"in sight at first, in sight while editing\.$",
    "verl command, Megatron TP 8, PP 2": rf"Incomplete\. Sharding megatron.* {NOT_GREEN} {NOT_YET}",
    "an out-of-memory message": r"^An out-of-memory message: Paste it on the Import page, with",
    "share with a phone, dark": r"^\d\d characters, the same figures, no sideways scroll\.$",
    "four nodes under Slurm": r"^Slurm .*: Launch writes a job for sbatch .*A script",
    "OpenRLHF, NeMo-RL": r"OpenRLHF script yet\. Meanwhile.*NeMo-RL script yet\. Meanwhile",
    "Qwen2.5-VL-7B": rf"Incomplete\. .*qwen2_5_vl.* {NOT_GREEN} Search: Vision .*Meanwhile",
    "tools and several turns": rf"Incomplete\. Turns 8 .* {NOT_GREEN} Search: Turns .*Meanwhile",
    "keyboard only, from the search": r"1 to its result; the figures are changed\.$",
    "DAPO": r"change neither memory nor time.*link: kept\. Fits.*Search: Clip .*not change memory",
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
