"""Charts as the specification a browser draws: stacked, labelled, against the card."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import pytest

from planner.charts import bars as bars_of
from planner.charts import marks
from planner.charts.bar_words import ABOVE, ASIDE, LETTER
from planner.charts.bars import Part, Peak
from planner.term import CATEGORIES

PARTS = [
    Part("rollout", "parameters", 2.0),
    Part("rollout", "engine", 24.0, chosen=True),
    Part("rollout", "engine", 14.0),
    Part("rollout", "device", 2.0),
    Part("policy backward", "logits", 65.0),
    Part("policy backward", "parameters", 30.0),
]
PEAKS = [
    Peak("rollout", 42.0, 42.0, 42.0, "fits", "vLLM decoding"),
    Peak("policy backward", 95.0, 95.0, 95.0, "out of memory", "last layer"),
]


NAMED = {"parameters", "vLLM", "overhead", "logits"}


def bars(peaks: list[Peak] = PEAKS, **changes: Any) -> dict[str, Any]:
    return bars_of.phase_bars(PARTS, peaks, **{"capacity": 80.0, "unit": "GiB", **changes})


def layers_with(chart: dict[str, Any], mark: str) -> list[dict[str, Any]]:
    return [layer for layer in chart["layer"] if layer["mark"]["type"] == mark]


def rows_of(layer: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = layer["data"]["values"]
    return rows


def test_an_interval_is_a_line_with_two_ends() -> None:
    assert not layers_with(bars(), "tick")
    chart = bars([PEAKS[0]._replace(least=39.0, most=50.0), PEAKS[1]])
    ends = [layer["encoding"]["x"]["field"] for layer in layers_with(chart, "tick")]
    assert ends == ["least", "most"]
    (line,) = [layer for layer in layers_with(chart, "rule") if "x2" in layer["encoding"]]
    assert (line["encoding"]["x"]["field"], line["encoding"]["x2"]["field"]) == ("least", "most")
    assert [row["phase"] for row in rows_of(line)] == ["rollout"]


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


def solid(chart: dict[str, Any]) -> dict[str, Any]:
    return chart["layer"][0]


def test_bars_are_stacked_in_the_fixed_order_of_the_categories() -> None:
    chart = bars()
    rows = [row for row in rows_of(solid(chart)) if row["phase"] == "policy backward"]
    ends = [(row["text"], row["from"], row["to"]) for row in rows]
    assert ends == [("parameters", 0.0, 30.0), ("logits", 30.0, 95.0)]
    assert solid(chart)["encoding"]["y"]["sort"] == ["rollout", "policy backward"]


def test_what_an_engine_is_given_is_apart_behind_all_that_is_needed() -> None:
    chart = bars()
    needed = [row for row in rows_of(solid(chart)) if row["phase"] == "rollout"]
    assert [row["text"] for row in needed] == ["parameters", "overhead", "vLLM"]
    (pool,) = [one for one in layers_with(chart, "bar") if "strokeDash" in one["mark"]]
    (row,) = rows_of(pool)
    assert (row["text"], row["from"], row["to"]) == ("KV cache", 18.0, 42.0)
    assert row["from"] == max(one["to"] for one in needed)
    assert pool["mark"]["fillOpacity"] < 0.5


def test_the_capacity_is_a_dashed_line_with_its_label_on_the_side_that_has_room() -> None:
    for capacity, side in ((80.0, "right"), (24.0, "left")):
        chart = bars(capacity=capacity)
        rule = next(one for one in layers_with(chart, "rule") if "strokeDash" in one["mark"])
        assert rows_of(rule)[0] == {"capacity": capacity, "label": f"GPU: {capacity:.1f} GiB"}
        label = layers_with(chart, "text")[-1]
        assert (label["mark"]["align"], label["mark"]["dx"] < 0) == (side, side == "right")
        assert label["encoding"]["y"] == {"value": 0} and label["mark"]["dy"] < 0, "above all bars"


def test_words_stand_beside_the_plot_and_never_cross_the_line() -> None:
    words = next(one for one in layers_with(bars(), "text") if one["mark"].get("dx") == ASIDE)
    assert words["encoding"]["x"] == {"value": "width"}
    assert words["mark"]["align"] == "left"
    assert [row["text"] for row in rows_of(words)] == ["42.0  ✓ fits", "95.0  ✕ too much"]


def test_a_name_stands_in_its_bar_where_the_plot_has_room_for_it() -> None:
    chart = bars()
    names = [row["text"] for layer in layers_with(chart, "text")[:2] for row in rows_of(layer)]
    assert set(names) == {"parameters", "vLLM", "overhead", "logits", "KV cache"}
    steps = layers_with(chart, "text")[0]["transform"]
    assert any("width" in step.get("calculate", "") for step in steps)
    assert {"filter": "datum.room > 0"} in steps


@pytest.mark.parametrize(("capacity", "keyed"), [(80.0, {"overhead"}), (8000.0, {*NAMED})])
def test_what_no_bar_has_room_to_name_is_in_the_key(
    capacity: float, keyed: set[str], tmp_path: Path
) -> None:
    """As it is drawn; and the bars are as far down, however many names the key has."""
    drawn = tmp_path / "bars.svg"
    alt.Chart.from_dict({**bars(capacity=capacity), "width": 600}).save(drawn)
    parts = [*ElementTree.parse(drawn).iter()]
    said = [one.text for one in parts if one.text in NAMED]
    assert {name for name in NAMED if said.count(name)} == NAMED, "each is named somewhere"
    symbols = [one for one in parts if "mark-symbol" in one.get("class", "")]
    squares = [path for one in symbols for path in one if path.get("opacity") == "1"]
    assert len(squares) == len({path.get("transform") for path in squares}) == len(keyed)
    corner = next(one for one in layers_with(bars(), "point") if one["mark"].get("opacity") == 0)
    assert corner["encoding"]["y"] == {"value": -ABOVE}


def test_the_chosen_phase_is_marked_and_every_row_can_be_clicked() -> None:
    chart = bars(chosen="rollout")
    rows = next(one for one in chart["layer"] if one.get("name") == bars_of.ROWS)
    (param,) = chart["params"]
    assert param["views"] == [rows["name"]]
    assert (param["name"], param["select"]["fields"]) == (bars_of.CHOSEN, ["phase"])
    assert param["value"] == [{"phase": "rollout"}]
    assert len(rows_of(rows)) == len(PEAKS)
    later = chart["layer"][chart["layer"].index(rows) + 1 :]
    assert not [one for one in later if one["mark"]["type"] == "bar"], "nothing lies over a row"
    assert rows_of(rows)[0]["parts"] == "parameters 2.00, overhead 2.00, vLLM 14.00, KV cache 24.00"
    low, high = solid(bars())["encoding"]["x"]["scale"]["domain"]
    assert (rows["encoding"]["x"]["datum"], rows["encoding"]["x2"]["datum"]) == (low, high)


def test_line_and_words_are_readable_on_both_backgrounds() -> None:
    config = Path(__file__).parents[2].joinpath(".streamlit/config.toml").read_text()
    for mode in ("light", "dark"):
        section = config.split(f"[theme.{mode}]")[1]
        background = re.search(r'backgroundColor = "(#\w+)"', section)
        assert background is not None
        ink = marks.INK[mode]
        assert contrast(ink, background[1]) > 7
        assert contrast(marks.OVER_INK[ink], background[1]) > 4.5
        rule = next(one for one in layers_with(bars(ink=ink), "rule"))
        assert rule["mark"]["color"] == ink


def test_every_name_is_readable_on_its_colour() -> None:
    assert all(contrast(marks.on_color(color), color) > 4.5 for color in marks.COLORS.values())


def test_bars_and_line_share_a_scale_that_holds_both() -> None:
    low, high = solid(bars())["encoding"]["x"]["scale"]["domain"]
    assert low == 0
    assert high > 95
    assert solid(bars(capacity=200.0))["encoding"]["x"]["scale"]["domain"][1] > 200


def test_the_theme_knows_the_charts_colours() -> None:
    config = Path(__file__).parents[2].joinpath(".streamlit/config.toml").read_text()
    listed = re.findall(r"chartCategoricalColors = (\[.*\])", config)
    assert len(listed) == 2
    assert all(set(json.loads(colors)) & set(marks.COLORS.values()) for colors in listed)


def test_charts_can_be_saved_as_pictures(tmp_path: Path) -> None:
    alt.Chart.from_dict({**bars(), "width": 400}).save(tmp_path / "bars.svg")
    assert "policy backward" in (tmp_path / "bars.svg").read_text()


@pytest.mark.parametrize("capacity", [20.0, 31.0, 34.0, 38.0, 80.0])
def test_no_name_is_crossed_by_the_cards_line(capacity: float, tmp_path: Path) -> None:
    """As it is drawn: a name ends before the line, or begins behind it."""
    drawn = tmp_path / "bars.svg"
    alt.Chart.from_dict({**bars(capacity=capacity), "width": 600}).save(drawn)
    line, names = 0.0, []
    for one in ElementTree.parse(drawn).iter():
        place = re.match(r"translate\(([\d.]+),", one.get("transform", ""))
        if place and one.get("stroke-dasharray") == "6,4":
            line = float(place[1])
        if place and one.text in {*CATEGORIES, *NAMED} and "," in one.get("transform", ""):
            names.append((float(place[1]), len(one.text)))
    assert line > 0 and len(names) >= 3
    for begins, letters in names:
        assert begins > line or begins + LETTER * letters < line


def test_charts_need_no_streamlit() -> None:
    code = (
        "import sys, planner.charts.bars, planner.charts.curves; "
        "sys.exit('streamlit' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
