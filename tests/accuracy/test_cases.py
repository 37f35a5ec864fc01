"""docs/cases.md is what the estimate says today; no run that died is said to fit."""

from __future__ import annotations

from pathlib import Path

from accuracy.cases import draw
from accuracy.cases.compare import REFUSED, answered
from accuracy.cases.report import text

DOCUMENT = Path(__file__).parents[2] / "docs" / "cases.md"
REFUSED_BY_ASSERTION = {"c32"}
"""verl's own assertion: 640 rows of a GPU are no multiple of its log-prob micro-batch."""
MORE_TIGHT = 0.10


def test_the_document_is_todays() -> None:
    assert DOCUMENT.read_text("utf-8") == text(), "run .venv/bin/python -m accuracy.cases"


def test_no_run_that_died_is_said_to_fit() -> None:
    rows = answered()
    assert [f"{row.case['id']} plan {row.number}" for row in rows if row.false_fit] == []
    assert sum(row.ended == "out of memory" for row in rows) == 19


def test_what_was_answered_still_is() -> None:
    refused = {row.case["id"] for row in answered() if row.newly_refused}
    assert refused <= REFUSED_BY_ASSERTION
    assert any(row.word == REFUSED and row.refusal for row in answered())


def test_caution_is_not_paid_for_by_all() -> None:
    assert len(draw.both(True)) > 0.9 * draw.COUNT
    then, now = draw.words()
    assert now["tight"] <= then["tight"] + MORE_TIGHT
    before, after, count = draw.widths()
    assert after <= before + 1e-4 and count > 0.5 * draw.OF_MEASURED
