"""A chart in fewer bytes is the same chart."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest

from planner import Plan, estimate
from planner.charts import bars
from planner.charts.marks import INK
from planner.charts.sent import sent
from planner.ui.tables import bar_parts, bar_peaks
from planner.wording.display import UNITS

READ: dict[str, Callable[[str], Any]] = {"number": float, "string": str, "boolean": "true".__eq__}


def read(part: Any) -> list[dict[str, Any]]:
    """Rows as Vega's own reader of CSV gives them; what is not there is null."""
    if isinstance(part["values"], list):
        return list(part["values"])
    kinds = part["format"]["parse"]
    return [
        {name: READ[kinds[name]](text) if text else None for name, text in row.items()}
        for row in csv.DictReader(StringIO(part["values"]))
    ]


def tables(part: Any) -> Iterator[Any]:
    if isinstance(part, dict):
        if isinstance(part.get("values"), (list, str)):
            yield part
        for value in part.values():
            yield from tables(value)
    elif isinstance(part, list):
        for value in part:
            yield from tables(value)


def chart() -> dict[str, Any]:
    footprint = estimate(Plan(method="grpo"))
    unit = UNITS["GiB"]
    return bars.phase_bars(
        bar_parts(footprint, unit),
        bar_peaks(footprint, unit),
        capacity=79.1,
        unit="GiB",
        ink=INK["light"],
        chosen="rollout",
    )


def test_rows_are_read_again_as_they_were() -> None:
    before, after = [*tables(chart())], [*tables(sent(chart()))]
    assert len(before) == len(after) > 5
    for rows, text in zip(before, after, strict=True):
        for old, new in zip(rows["values"], read(text), strict=True):
            assert new == {
                name: pytest.approx(value, rel=1e-5) if isinstance(value, float) else value
                for name, value in old.items()
            }


def test_what_a_text_may_hold_and_what_is_not_there_is_kept() -> None:
    rows = [{"a": 'one, "two"\nthree', "b": True, "c": None}, {"a": "", "b": False, "c": 2}]
    found = sent({"data": {"values": rows}})["data"]
    assert found["format"]["parse"] == {"a": "string", "b": "boolean", "c": "number"}
    assert read(found) == [{**rows[0]}, {"a": None, "b": False, "c": 2.0}]


def test_lists_that_are_no_rows_stay() -> None:
    spec = {"axis": {"values": [1, 2]}, "layer": [{"data": {"values": []}}, {"values": [{}]}]}
    assert sent(spec) == spec


def test_a_chart_of_phases_is_sent_in_two_thirds_of_its_bytes() -> None:
    assert len(json.dumps(sent(chart()))) < 0.67 * len(json.dumps(chart()))
