"""The example cards' pictures: axes that hold, marks where the slider stands, words not colour."""

from __future__ import annotations

import pandas as pd
import pytest

from planner.charts import examples as charts
from planner.charts.options import option_bars
from planner.term import CATEGORIES

CURVES = pd.DataFrame(
    [
        (x, y * x, name, name.endswith("claimed"))
        for name, y in (("A, claimed", 1.0), ("A, planned", 0.1), ("B, claimed", 3.0))
        for x in (10, 20, 40)
    ],
    columns=["x", "y", "name", "claimed"],
)
BARS = pd.DataFrame(
    [
        (name, part, size, 3 * size, word)
        for name, size, word in (("before", 40.0, "out of memory"), ("after", 10.0, "fits"))
        for part in charts.PARTS
    ],
    columns=["name", "part", "memory", "total", "word"],
)


def curves(at: float, **changes: object) -> dict:
    given = {"x_title": "x", "y_title": "y", "capacity": 80.0, "label": "card", **changes}
    return charts.curves(CURVES, at, **given).to_dict()


def layers_with(chart: dict, mark: str) -> list[dict]:
    return [layer for layer in chart["layer"] if layer["mark"]["type"] == mark]


def test_the_slider_moves_a_rule_and_points_and_no_axis() -> None:
    here, there = curves(10), curves(40)
    lines = layers_with(here, "line")
    assert lines == layers_with(there, "line")
    scale = lines[0]["encoding"]["y"]["scale"]
    assert (scale["type"], scale["domain"]) == ("log", [0.7, 180.0])
    (point,) = layers_with(there, "point")
    assert point["transform"] == [{"filter": "(datum.x === 40)"}]
    rule = layers_with(there, "rule")[0]
    assert there["datasets"][rule["data"]["name"]] == [{"x": 40}]


def test_a_claim_is_dashed_in_the_colour_of_its_kind() -> None:
    encoding = layers_with(curves(10), "line")[0]["encoding"]
    color, dash = encoding["color"]["scale"], encoding["strokeDash"]["scale"]
    assert color["domain"] == ["A, claimed", "A, planned", "B, claimed"]
    assert color["range"][0] == color["range"][1] != color["range"][2]
    assert dash["range"] == [[6, 4], [1, 0], [6, 4]]


def test_a_higher_capacity_is_still_on_the_axis() -> None:
    scale = layers_with(curves(10, capacity=1_000.0), "line")[0]["encoding"]["y"]["scale"]
    assert scale["domain"][1] == 1_500


def test_bars_keep_their_axis_and_say_the_verdict_in_a_sign() -> None:
    chart = charts.options(BARS, capacity=79.1, most=300.0, unit="GiB").to_dict()
    (bars,) = layers_with(chart, "bar")
    assert bars["encoding"]["x"]["scale"]["domain"] == [0, pytest.approx(420)]
    (text,) = [one for one in layers_with(chart, "text") if "x" in one["encoding"]][:1]
    rows = chart["datasets"][text["data"]["name"]]
    assert [row["text"] for row in rows] == ["120.0 ✕", "30.0 ✓"]
    small = charts.options(BARS, capacity=79.1, most=20.0, unit="GiB").to_dict()
    assert layers_with(small, "bar")[0]["encoding"]["x"]["scale"]["domain"][1] > 79.1


def test_every_category_belongs_to_a_part() -> None:
    assert {charts.part_of(category) for category in CATEGORIES} == set(charts.PARTS)
    assert charts.part_of("logits") == charts.part_of("activations") != charts.part_of("engine")


def test_a_full_bar_of_the_references_options_can_be_given() -> None:
    rows = pd.DataFrame(
        [("GPU peak", name, "planned", v, "x", "y") for name, v in (("a", 4.0), ("b", 2.0))],
        columns=["measure", "option", "kind", "value", "text", "why"],
    )

    def shares(**changes: object) -> list[float]:
        chart = option_bars(rows, **changes).to_dict()
        drawn = chart["datasets"][layers_with(chart, "bar")[0]["data"]["name"]]
        return [row["share"] for row in drawn]

    assert shares() == [1.0, 0.5]
    assert shares(most={"GPU peak": 8.0}) == [0.5, 0.25]
    assert shares(most={"another": 8.0}) == [1.0, 0.5]
