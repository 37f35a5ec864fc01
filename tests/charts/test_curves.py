"""Small multiples as the specification a browser draws: aligned, named, under one pointer."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
import vl_convert

from charts.test_bars import contrast
from planner.charts import cards as cards_of
from planner.charts import curves as curves_of
from planner.charts import marks, multiples
from planner.charts.panel import DASHES, PALETTE, SECOND, WIDEST, Axis, Closed, Line, Panel, _spread

ROWS = pd.DataFrame(
    {
        "x": [512.0, 1024.0, 2048.0],
        "load, rollout": [4.0, 4.0, 4.0],
        "policy backward": [20.0, 35.0, 90.0],
        "Seconds per step, A": [40.0, 60.0, None],
        "low": [30.0, 50.0, None],
        "high": [50.0, 90.0, None],
        "verdict": ["fits", "fits", "out of memory"],
    }
)
MEMORY = Panel(
    title="Memory per GPU, GiB",
    unit="GiB",
    lines=[
        Line(column="load, rollout", name="load,\nrollout"),
        Line(column="policy backward", name="policy backward", color=PALETTE[1]),
    ],
    limits=[("card: 80.0 GiB", 80.0), ("left beside the engine's pool: 40.0 GiB", 40.0)],
)
SECONDS = Panel(
    title="Seconds per step",
    unit="s",
    lines=[Line(column="Seconds per step, A", name="", low="low", high="high")],
    marks=[(1024.0, "knee: 1,024")],
)
AXIS = Axis(title="Response length, tokens", low=512, high=2048, ticks=[512, 1024, 2048])
CARDS = pd.DataFrame(
    [
        ("MI300X", "fits", "", "load", 30.0, 100.0, 191.0, 56.0, 20.0, 90.0, 28.0, 10.0, 50.0),
        ("A10", "out of memory", "card full", "load", 30.0, 31.0, 22.0, *[None] * 6),
    ],
    columns=[
        *("card", "verdict", "limit", "phase", "need", "peak", "size"),
        *(f"{name}{end}" for name in ("usd", "seconds") for end in ("", "_low", "_high")),
    ],
)


def drawn(*panels: Panel, rows: pd.DataFrame = ROWS, **more: object) -> dict:
    given = {"read": [("verdict", "verdict")], **more}
    return curves_of.curves(rows, panels or (MEMORY, SECONDS), AXIS, **given)


def as_svg(chart: dict) -> str:
    """As Vega draws it, which refuses what no browser could."""
    inline = {name: rows.to_dict("records") for name, rows in chart["datasets"].items()}
    text = pd.Series([{**chart, "datasets": inline}]).to_json(orient="records")[1:-1]
    return vl_convert.vegalite_to_svg(text)


def marks_of(panel: dict, mark: str) -> list[dict]:
    return [layer for layer in panel["layer"] if layer["mark"]["type"] == mark]


def test_every_panel_has_the_same_axis_and_follows_one_pointer() -> None:
    chart = drawn()
    (pointer,) = chart["params"]
    scales = set()
    for number, panel in enumerate(chart["vconcat"]):
        named = [layer for layer in panel["layer"] if layer.get("name") == pointer["views"][number]]
        assert named[0]["encoding"]["opacity"]["condition"]["param"] == pointer["name"]
        # One tooltip reads off all panels, wherever the pointer is.
        read = {tip["field"] for tip in named[0]["encoding"]["tooltip"]}
        columns = {line.column for p in (MEMORY, SECONDS) for line in p.lines}
        assert read == {"x", "verdict", *columns}
        placed = [layer["encoding"] for layer in panel["layer"] if "x" in layer["encoding"]]
        scales |= {str(encoding["x"]["scale"]) for encoding in placed}
    assert len(scales) == 1 and "'log'" in scales.pop()


def test_vega_draws_lines_of_names_that_break() -> None:
    picture = as_svg(drawn(closed=[Closed(low=1448, high=2048, label="card full in load")]))
    words = ("policy backward", "rollout", "card: 80.0 GiB", "knee: 1,024", "card full in load")
    for word in words:
        assert word in picture
    assert "1,024" in picture and "Response length, tokens" in picture


def test_only_the_lowest_panel_labels_the_axis() -> None:
    first, last = drawn()["vconcat"]
    labelled = [marks_of(panel, "line")[0]["encoding"]["x"]["axis"] for panel in (first, last)]
    assert [axis["labels"] for axis in labelled] == [False, True]
    assert labelled[0]["title"] is None and labelled[1]["title"] == AXIS.title


def test_limits_are_dashed_and_named_and_lines_far_above_leave_the_panel() -> None:
    panel = drawn()["vconcat"][0]
    rules = [rule for rule in marks_of(panel, "rule") if "strokeDash" in rule["mark"]]
    names = [rule["data"]["values"][0]["name"] for rule in rules]
    assert names == [name for name, _ in MEMORY.limits]
    (line,) = marks_of(panel, "line")
    assert line["encoding"]["y"]["scale"]["domain"][1] > 90 and line["mark"]["clip"]
    far = ROWS.assign(**{"policy backward": [20.0, 35.0, 9000.0]})
    (line,) = marks_of(drawn(rows=far)["vconcat"][0], "line")
    assert line["encoding"]["y"]["scale"]["domain"][1] == pytest.approx(1.6 * 80)


def test_a_plan_that_is_not_possible_leaves_no_gap() -> None:
    (line,) = marks_of(drawn()["vconcat"][1], "line")
    assert {"filter": "isValid(datum.y)"} in line["transform"]


def test_a_band_lies_around_its_line_and_does_not_press_it_flat() -> None:
    panel = drawn()["vconcat"][1]
    (band,) = marks_of(panel, "area")
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("low", "high")
    far = ROWS.assign(high=[5000.0, 5000.0, None])
    (line,) = marks_of(drawn(rows=far)["vconcat"][1], "line")
    assert line["encoding"]["y"]["scale"]["domain"][1] == pytest.approx(1.15 * WIDEST * 60)


def test_figures_that_differ_manifold_get_a_logarithmic_scale() -> None:
    steep = ROWS.assign(**{"Seconds per step, A": [1.0, 60.0, None]})
    for rows, kind in ((ROWS, None), (steep, "log")):
        (line,) = marks_of(drawn(rows=rows)["vconcat"][1], "line")
        assert line["encoding"]["y"]["scale"].get("type") == kind


def test_few_places_are_points() -> None:
    assert "point" in marks_of(drawn()["vconcat"][0], "line")[0]["mark"]
    many = pd.concat([ROWS] * 20, ignore_index=True)
    assert "point" not in marks_of(drawn(rows=many)["vconcat"][0], "line")[0]["mark"]


def test_names_stand_beside_their_lines_ends_and_do_not_touch() -> None:
    ends, sizes = [100.0, 101.0, 99.0, 5.0, 299.0, 300.0], [14, 26, 14, 14, 14, 14]
    places = multiples.apart(ends, sizes, 300)
    order = sorted(range(len(ends)), key=places.__getitem__)
    assert order == sorted(range(len(ends)), key=ends.__getitem__)
    for one, other in pairwise(order):
        assert places[other] - places[one] >= (sizes[one] + sizes[other]) / 2 - 1e-9
    assert min(places) >= 7 - 1e-9 and max(places) <= 293 + 1e-9
    crowded = multiples.apart([50.0] * 30, [14.0] * 30, 300)
    assert min(crowded) >= 0 and max(crowded) <= 300 and len(set(crowded)) == 30


def test_the_reason_of_a_stretch_is_written_once_on_its_free_side() -> None:
    early, late = (Closed(low=low, high=high, label=label) for low, high, label in (
        (512, 700, "host RAM full"), (1900, 2048, "card full in load")
    ))
    chart = drawn(closed=[early, late])
    assert list(chart["datasets"]["closed"]["side"]) == ["left", "right"]
    texts = [len(marks_of(panel, "rect")) for panel in chart["vconcat"]]
    assert texts == [1, 1]
    named = [str(layer["encoding"].get("text")) for p in chart["vconcat"] for layer in p["layer"]]
    assert sum("label" in text for text in named) == 4  # words and their edge, on either side


def backgrounds() -> dict[str, str]:
    config = Path(__file__).parents[2].joinpath(".streamlit/config.toml").read_text()
    found = {}
    for mode in ("light", "dark"):
        match = re.search(r'backgroundColor = "(#\w+)"', config.split(f"[theme.{mode}]")[1])
        assert match is not None
        found[mode] = match[1]
    return found


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_words_and_lines_are_seen_on_both_pages(mode: str) -> None:
    page = backgrounds()[mode]
    assert multiples.paper(marks.INK[mode]).lower() == page.lower()
    assert contrast(marks.INK[mode], page) >= 4.5
    assert min(contrast(color, page) for color in PALETTE) >= 3
    chart = drawn(ink=marks.INK[mode])
    for panel in chart["vconcat"]:
        assert panel["title"]["color"] == marks.INK[mode]
        colors = {layer["mark"]["color"] for layer in marks_of(panel, "text")}
        assert colors == {marks.INK[mode], page.upper()}


def test_no_two_lines_look_alike() -> None:
    looks = [(color, tuple(dash)) for dash in DASHES for color in PALETTE]
    assert len(set(looks)) == len(looks) and marks.OVER not in PALETTE
    assert tuple(SECOND[1]) != tuple(DASHES[0])


@pytest.mark.parametrize("count", [3, 12, 13, 40])
def test_tick_labels_stay_few_and_keep_the_largest(count: int) -> None:
    ticks = [2.0**power for power in range(count)]
    shown = _spread(ticks)
    assert min(count, 6) <= len(shown) <= 12
    assert shown[-1] == ticks[-1]


def test_tick_labels_do_not_touch() -> None:
    assert _spread([8192, 16_000, 16_384]) == [8192, 16_384]


def test_cards_stand_in_their_order_with_intervals_and_a_shape_for_the_verdict() -> None:
    chart = cards_of.cards(CARDS, unit="GiB")
    titles = [panel["title"]["text"] for panel in chart["vconcat"]]
    assert titles == ["Dollars per run", "Seconds per step", "Memory per GPU, GiB"]
    for panel, name in zip(chart["vconcat"], ("usd", "seconds"), strict=False):
        rule = next(layer for layer in marks_of(panel, "rule") if "y2" in layer["encoding"])
        assert rule["encoding"]["y"]["field"] == f"{name}_low"
        assert rule["encoding"]["y2"]["field"] == f"{name}_high"
    xs = [layer["encoding"]["x"] for panel in chart["vconcat"] for layer in panel["layer"]]
    assert all(x["sort"] is None for x in xs)
    (point,) = marks_of(chart["vconcat"][2], "point")
    assert len(set(point["encoding"]["shape"]["scale"]["range"])) == 4
    picture = as_svg(chart)
    assert picture.index("MI300X") < picture.index("A10") and "out of memory" in picture


def test_a_figure_that_no_card_has_is_left_out() -> None:
    chart = cards_of.cards(CARDS.assign(usd=None), unit="GiB")
    assert [panel["title"]["text"] for panel in chart["vconcat"]][0] == "Seconds per step"
