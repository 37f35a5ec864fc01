"""The timeline as the specification a browser draws."""

from __future__ import annotations

import pandas as pd
import pytest

from planner.charts import marks
from planner.charts import timeline as charts_timeline

ROWS = pd.DataFrame(
    [
        (0, "old log-probs", "mm", "layers.0", 10.0, 5.0, 15.0),
        (500, "between phases", "empty", "", 10.0, 0.0, 10.0),
        (510, "policy forward", "mm", "layers.0", 10.0, 9.0, 19.0),
        (700, "policy backward", "mm", "layers.0", 10.0, 30.0, 40.0),
        (980, "optimizer step", "_fused_adamw_", "", 10.0, 0.0, 10.0),
        (1000, "optimizer step", "_fused_adamw_", "", 10.0, 0.0, 10.0),
    ],
    columns=["event", "phase", "op", "module", "parameters", "activations", "total"],
)


def drawn(rows: pd.DataFrame = ROWS, **changes: object) -> dict:
    options = {"capacity": 80.0, "unit": "GiB", **changes}
    return charts_timeline.timeline(rows, **options).to_dict()


def layers_with(chart: dict, mark: str) -> list[dict]:
    return [layer for layer in chart["layer"] if layer["mark"]["type"] == mark]


def texts(chart: dict) -> list[str]:
    found = []
    for layer in layers_with(chart, "text"):
        field = layer["encoding"]["text"]["field"]
        found += [row[field] for row in chart["datasets"][layer["data"]["name"]]]
    return found


def test_categories_are_stacked_in_the_charts_order_and_colours() -> None:
    area = layers_with(drawn(), "area")[0]
    assert area["transform"][0]["fold"] == ["parameters", "activations"]
    assert "indexof" in area["transform"][1]["calculate"]
    assert area["encoding"]["order"]["field"] == "rank"
    scale = area["encoding"]["color"]["scale"]
    assert scale["domain"] == ["parameters", "activations"]
    assert scale["range"] == [marks.COLORS["parameters"], marks.COLORS["activations"]]


def test_the_axis_says_what_it_counts() -> None:
    x = layers_with(drawn(), "area")[0]["encoding"]["x"]
    assert "events of one step" in x["title"]
    assert x["scale"]["domain"] == [0, 1000]


def test_every_phase_is_named_where_it_begins() -> None:
    chart = drawn()
    assert {"old log-probs", "policy forward", "policy backward", "optimizer step"} < set(
        texts(chart)
    )
    assert "between phases" not in texts(chart)
    rules = layers_with(chart, "rule")[0]
    starts = [row["event"] for row in chart["datasets"][rules["data"]["name"]]]
    assert starts == [0, 510, 700, 980]


def test_a_name_that_would_leave_the_plot_stands_left_of_its_line() -> None:
    chart = drawn()
    aligned = {
        row["phase"]: layer["mark"]["align"]
        for layer in layers_with(chart, "text")
        if layer["encoding"]["text"]["field"] == "phase"
        for row in chart["datasets"][layer["data"]["name"]]
    }
    assert aligned["old log-probs"] == "left"
    assert aligned["optimizer step"] == "right"


def test_names_of_one_line_do_not_touch_on_a_telephone() -> None:
    names = ["reference log-probs", "old log-probs", "values", "critic update", "policy forward"]
    rows = pd.DataFrame(
        [(at * 10, name) for at, name in enumerate(names * 3)], columns=["event", "phase"]
    )
    found = charts_timeline.stretches(rows)
    assert len(found) == 15
    spans: dict[int, list[tuple[float, float]]] = {}
    for one in found:
        if one.line < 0:
            continue
        start = one.first / 140 * charts_timeline.NARROWEST
        wide = len(one.phase) * charts_timeline.LETTER
        if start + wide > charts_timeline.NARROWEST:
            start -= wide
        spans.setdefault(one.line, []).append((start, start + wide))
    for line in spans.values():
        line.sort()
        assert all(left[1] <= right[0] for left, right in zip(line, line[1:], strict=False))


def test_a_phase_is_named_again_only_after_another_one_and_if_it_lasts() -> None:
    order = [
        (0, "a"),
        (40, "between phases"),
        (41, "a"),
        (60, "b"),
        (80, "a"),
        (99, "b"),
        (100, "b"),
    ]
    found = charts_timeline.stretches(pd.DataFrame(order, columns=["event", "phase"]))
    assert [(one.phase, one.line >= 0) for one in found] == [
        ("a", True),
        ("a", False),
        ("b", True),
        ("a", True),
        ("b", False),
    ]


def test_the_card_is_a_dashed_labelled_line_within_the_plot() -> None:
    chart = drawn()
    rule = next(layer for layer in layers_with(chart, "rule") if "strokeDash" in layer["mark"])
    assert rule["encoding"]["y"]["field"] == "capacity"
    assert "card: 80.0 GiB" in texts(chart)
    assert layers_with(chart, "area")[0]["encoding"]["y"]["scale"]["domain"][1] > 80


def test_a_card_far_above_is_written_instead_of_pressing_the_step_flat() -> None:
    chart = drawn(capacity=640.0)
    assert "card: 640.0 GiB, far above ↑" in texts(chart)
    assert not [layer for layer in layers_with(chart, "rule") if "strokeDash" in layer["mark"]]
    assert layers_with(chart, "area")[0]["encoding"]["y"]["scale"]["domain"][1] < 80


def test_a_step_above_the_card_is_drawn_whole() -> None:
    high = layers_with(drawn(capacity=20.0), "area")[0]["encoding"]["y"]["scale"]["domain"][1]
    assert high > 40


def test_hovering_names_op_module_phase_and_memory() -> None:
    hover = layers_with(drawn(), "rule")[-1]
    titles = [tip["title"] for tip in hover["encoding"]["tooltip"]]
    assert titles == ["phase", "op", "in", "live, GiB", "activations", "parameters", "event"]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_lines_and_words_have_the_visitors_ink(mode: str) -> None:
    ink = marks.INK[mode]
    chart = drawn(ink=ink)
    inked = [*layers_with(chart, "rule"), *layers_with(chart, "text")]
    assert {layer["mark"]["color"] for layer in inked} == {ink}


def test_a_timeline_can_be_saved_as_a_picture(tmp_path) -> None:
    charts_timeline.timeline(ROWS, capacity=80.0, unit="GiB").save(tmp_path / "timeline.svg")
    assert "policy backward" in (tmp_path / "timeline.svg").read_text()
