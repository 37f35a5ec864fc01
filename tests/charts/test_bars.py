"""Charts as the specification a browser draws: stacked, labelled, against the card."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from planner.charts import bars as bars_of
from planner.charts import curves as curves_of
from planner.charts import marks
from planner.footprint import CATEGORIES

ROWS = pd.DataFrame(
    [
        ("rollout", "engine", 40.0, 42.0, "fits", "engine decodes"),
        ("rollout", "device", 2.0, 42.0, "fits", "engine decodes"),
        ("policy backward", "parameters", 30.0, 95.0, "out of memory", "last layer"),
        ("policy backward", "logits", 65.0, 95.0, "out of memory", "last layer"),
    ],
    columns=["phase", "category", "memory", "total", "word", "detail"],
).assign(least=None, most=None)
CURVES = pd.DataFrame(
    [
        (512, 20.0, "A", "fits", "rollout"),
        (1024, 90.0, "A", "out of memory", "rollout"),
        (512, 25.0, "B", "fits", "rollout"),
        (1024, 75.0, "B", "tight", "rollout"),
    ],
    columns=["x", "y", "plan", "word", "detail"],
).assign(least=None, most=None)


def bars(**changes: object) -> dict:
    return bars_of.phase_bars(ROWS, **{"capacity": 80.0, "unit": "GiB", **changes}).to_dict()


def layers_with(chart: dict, mark: str) -> list[dict]:
    return [layer for layer in chart["layer"] if layer["mark"]["type"] == mark]


def rows_of(chart: dict, layer: dict) -> list[dict]:
    return chart["datasets"][layer["data"]["name"]]


def test_a_measured_error_is_a_line_with_two_ends_and_no_word_covers_it() -> None:
    assert not layers_with(bars(), "tick")
    known = ROWS.assign(least=[39.0, 39.0, None, None], most=[50.0, 50.0, None, None])
    chart = bars_of.phase_bars(known, capacity=80.0, unit="GiB").to_dict()
    assert [layer["encoding"]["x"]["field"] for layer in layers_with(chart, "tick")] == [
        "least",
        "most",
    ]
    (line,) = [layer for layer in layers_with(chart, "rule") if "x2" in layer["encoding"]]
    assert (line["encoding"]["x"]["field"], line["encoding"]["x2"]["field"]) == ("least", "most")
    assert [row["phase"] for row in rows_of(chart, line)] == ["rollout"]
    words = next(
        layer
        for layer in layers_with(chart, "text")
        if layer["encoding"]["text"]["field"] == "text"
    )
    assert [row["end"] for row in rows_of(chart, words)] == [50.0, 95.0]


def test_a_measured_error_is_a_band_around_its_curve() -> None:
    def drawn(rows: pd.DataFrame) -> dict:
        return curves_of.curves(rows, x_title="tokens", y_title="GiB").to_dict()

    assert not layers_with(drawn(CURVES), "area")
    known = CURVES.assign(least=[19.0, 85.0, None, None], most=[22.0, 99.0, None, None])
    chart = drawn(known)
    (band,) = layers_with(chart, "area")
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("least", "most")
    assert {row["plan"] for row in rows_of(chart, band)} == {"A"}


def test_a_band_far_above_its_curve_is_cut_instead_of_pressing_it_flat() -> None:
    highest = float(CURVES["y"].max())
    for most, cut in ((1.5 * highest, None), (60 * highest, curves_of.WIDEST * highest)):
        known = CURVES.assign(least=0.0, most=most)
        chart = curves_of.curves(known, x_title="tokens", y_title="seconds").to_dict()
        (line,) = layers_with(chart, "line")
        assert line["encoding"]["y"]["scale"].get("domainMax") == cut
        assert layers_with(chart, "area")[0]["mark"]["clip"]


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio of two hex colours."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_category_has_a_colour_of_its_own() -> None:
    assert list(marks.COLORS) == list(CATEGORIES)
    assert len(set(marks.COLORS.values())) == len(CATEGORIES)
    assert marks.OVER not in marks.COLORS.values()


def test_bars_are_stacked_in_the_fixed_order_of_the_categories() -> None:
    chart = bars()
    bar = layers_with(chart, "bar")[0]
    assert bar["encoding"]["order"]["field"] == "rank"
    ranks = {row["category"]: row["rank"] for row in rows_of(chart, bar)}
    assert sorted(ranks, key=ranks.__getitem__) == ["parameters", "logits", "engine", "device"]
    assert bar["encoding"]["y"]["sort"] == ["rollout", "policy backward"]


def test_the_capacity_is_a_dashed_labelled_line() -> None:
    chart = bars()
    rule = layers_with(chart, "rule")[0]
    assert rule["mark"]["strokeDash"]
    assert rows_of(chart, rule)[0] == {"capacity": 80.0, "label": "card: 80.0 GiB"}


def test_the_capacity_line_is_readable_on_both_backgrounds() -> None:
    config = Path(__file__).parents[2].joinpath(".streamlit/config.toml").read_text()
    for mode in ("light", "dark"):
        section = config.split(f"[theme.{mode}]")[1]
        background = re.search(r'backgroundColor = "(#\w+)"', section)
        assert background is not None
        assert contrast(marks.INK[mode], background[1]) > 7
        rule = layers_with(bars(ink=marks.INK[mode]), "rule")[0]
        assert rule["mark"]["color"] == marks.INK[mode]


def test_every_bar_ends_in_a_word() -> None:
    chart = bars()
    texts = [row["text"] for row in rows_of(chart, layers_with(chart, "text")[0])]
    assert texts == ["42.0  ✓ fits", "95.0  ✕ too much"]


def test_bars_and_line_share_a_scale_that_holds_both() -> None:
    low, high = layers_with(bars(), "bar")[0]["encoding"]["x"]["scale"]["domain"]
    assert low == 0
    assert high > 95
    assert layers_with(bars(capacity=200.0), "bar")[0]["encoding"]["x"]["scale"]["domain"][1] > 200


def test_the_theme_knows_the_charts_colours() -> None:
    config = Path(__file__).parents[2].joinpath(".streamlit/config.toml").read_text()
    listed = re.findall(r"chartCategoricalColors = (\[.*\])", config)
    assert len(listed) == 2
    assert all(set(json.loads(colors)) & set(marks.COLORS.values()) for colors in listed)


def curves(**changes: object) -> dict:
    options = {"x_title": "tokens", "y_title": "GiB", **changes}
    return curves_of.curves(CURVES, **options).to_dict()


def test_two_plans_differ_in_colour_and_in_dash() -> None:
    line = layers_with(curves(), "line")[0]["encoding"]
    assert len(set(line["color"]["scale"]["range"])) == 2
    assert line["strokeDash"]["scale"]["range"][0] != line["strokeDash"]["scale"]["range"][1]


def test_verdicts_differ_in_shape() -> None:
    point = next(layer for layer in curves()["layer"] if "shape" in layer["encoding"])
    assert len(set(point["encoding"]["shape"]["scale"]["range"])) == 3


def test_the_axis_is_logarithmic_with_its_own_ticks() -> None:
    x = layers_with(curves(), "line")[0]["encoding"]["x"]
    assert (x["scale"]["type"], x["scale"]["base"]) == ("log", 2)
    assert x["axis"]["values"] == [512, 1024]


def test_one_line_for_one_card_and_two_for_two() -> None:
    assert len(layers_with(curves(capacities=[("card", 80.0)]), "rule")) == 1
    assert len(layers_with(curves(capacities=[("card", 80.0), ("card", 141.0)]), "rule")) == 2
    assert layers_with(curves(), "rule") == []
    named = curves(capacities=[("card", 80.0), ("engine's pool", 40.0)], unit="GiB")
    labels = [row.get("label") for rows in named["datasets"].values() for row in rows]
    assert {"card: 80.0 GiB", "engine's pool: 40.0 GiB"} <= set(labels)


@pytest.mark.parametrize("count", [3, 12, 13, 40])
def test_tick_labels_stay_few_and_keep_the_largest(count: int) -> None:
    ticks = [2.0**power for power in range(count)]
    shown = curves_of._spread(ticks)
    assert min(count, 6) <= len(shown) <= 12
    assert shown[-1] == ticks[-1]


def test_tick_labels_do_not_touch() -> None:
    assert curves_of._spread([8192, 16_000, 16_384]) == [8192, 16_384]


def test_charts_can_be_saved_as_pictures(tmp_path: Path) -> None:
    bars_of.phase_bars(ROWS, capacity=80.0, unit="GiB").save(tmp_path / "bars.svg")
    assert "policy backward" in (tmp_path / "bars.svg").read_text()


def test_charts_need_no_streamlit() -> None:
    code = (
        "import sys, planner.charts.bars, planner.charts.curves; "
        "sys.exit('streamlit' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
