"""Bars of what a change does: from the plan's figure, on an axis on which each can be seen."""

from __future__ import annotations

from typing import Any

from planner.charts.ablation import WIDEST, ablation, bars

ROWS = bars(
    ["the plan", "without Checkpointing", "without Sharding", "without Cache", "with Eager"],
    [52.0, 4056.0, 60.0, 52.0, 47.0],
    1.0,
    "{:,.0f} GiB".format,
)


def data_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    (found,) = [rows for rows in spec["datasets"].values() if "to" in rows[0]]
    return found  # type: ignore[no-any-return]


def test_every_bar_begins_at_the_plan() -> None:
    assert set(ROWS["plan"]) == {52.0}
    assert list(ROWS["kind"]) == ["more", "more", "nothing", "less"]
    assert list(ROWS["text"]) == [
        *("+4,004 GiB (4,056 GiB)", "+8 GiB (60 GiB)", "no change", "−5 GiB (47 GiB)"),
    ]


def test_one_change_in_a_thousand_does_not_press_the_others_flat() -> None:
    spec = ablation(ROWS, title="GiB").to_dict()
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    rows = {row["name"]: row for row in data_of(spec)}
    step = rows["without Sharding"]["to"] - 52.0
    assert low > 0 and step / (high - low) > 0.1, "a step of 8 GiB is seen"
    assert rows["without Checkpointing"]["to"] == WIDEST * 52.0
    assert rows["without Checkpointing"]["text"].endswith("→")


def test_a_name_begins_at_the_plans_line_or_behind_the_limit() -> None:
    for capacity, begins in ((None, 52.0), (55.0, 55.0), (30.0, 52.0)):
        spec = ablation(ROWS, title="GiB", capacity=capacity).to_dict()
        (names,) = [
            layer["encoding"]["x"]["datum"]
            for layer in spec["layer"]
            if layer["encoding"].get("text", {}).get("field") == "name"
        ]
        assert names == begins


def test_no_name_is_one_that_a_browsers_expressions_refuse() -> None:
    # The page's interpreter of expressions refuses "then" as the name of a property.
    spec = ablation(ROWS, title="GiB").to_dict()
    titles = [
        tip["title"] for layer in spec["layer"] for tip in layer["encoding"].get("tooltip", ())
    ]
    assert titles and "then" not in titles
