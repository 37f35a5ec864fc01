"""Bars of what each optimization does: where each begins, its kind, and no text on the limit."""

from __future__ import annotations

from planner.charts.waterfall import TEXT, bars, waterfall

ROWS = bars(
    ["All off", "Sharding", "Checkpointing", "Cache", "Eager"],
    [220.0, 78.0, 24.0, 24.1, 30.0],
    ["220 GiB", "78 GiB", "24 GiB", "24.1 GiB", "30 GiB"],
    ["", "−142 GiB", "−54 GiB", "+0.1 GiB", "+5.9 GiB"],
)


def test_each_bar_begins_where_the_one_before_it_ends() -> None:
    assert list(ROWS["from"]) == [0.0, 78.0, 24.0, 24.0, 24.1]
    assert list(ROWS["to"]) == [220.0, 220.0, 78.0, 24.1, 30.0]
    assert list(ROWS["kind"]) == ["all of it", "less", "less", "nothing", "more"]
    assert list(ROWS["text"]) == ["220 GiB", "−142 GiB", "−54 GiB", "nothing", "+5.9 GiB"]


def test_no_text_stands_across_the_limit() -> None:
    limit = 80.0
    spec = waterfall(ROWS, title="GiB", capacity=limit, label="the card").to_dict()
    (data,) = [rows for rows in spec["datasets"].values() if "end" in rows[0]]
    width = 1.28 * 220 * TEXT
    for row in data:
        assert row["end"] >= limit or row["end"] + width <= limit + 1e-9, row["name"]
    assert "dashed: the card" in str(spec)


def test_no_name_is_one_that_a_browsers_expressions_refuse() -> None:
    # The page's interpreter of expressions refuses "then" as the name of a property.
    spec = waterfall(ROWS, title="GiB").to_dict()
    titles = [
        tip["title"] for layer in spec["layer"] for tip in layer["encoding"].get("tooltip", ())
    ]
    assert titles and "then" not in titles
