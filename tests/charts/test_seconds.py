"""The chart of a step's time: stacked by cause, with intervals, row by row as the memory's."""

from __future__ import annotations

from typing import Any

import pytest

from planner.charts import bars, seconds
from planner.charts.bars import Part, Peak
from planner.charts.marks import INK

TOTALS = (("rollout", 8.0), ("policy backward", 2.0))


def chart(causes: int = 3, most: float | None = 12.0, times: float = 1.0, **more: Any) -> Any:
    parts = [
        seconds.Cause(phase, f"cause {number}", times * total / causes + (causes - number) * 1e-3)
        for phase, total in TOTALS
        for number in range(causes)
    ]
    least = None if most is None else 1.0
    taken = [seconds.Taken(name, times * size, least, most, f"{size:g} s") for name, size in TOTALS]
    return seconds.phase_seconds(parts, taken, **more)


def drawn(spec: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec["layer"][0]["data"]["values"]
    return found


def x_of(spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = spec["layer"][0]["encoding"]["x"]
    return found


def test_bars_are_stacked_by_cause_longest_first() -> None:
    rows = [row for row in drawn(chart()) if row["phase"] == "rollout"]
    assert [row["text"] for row in rows] == ["cause 0", "cause 1", "cause 2"]
    assert [row["to"] for row in rows[:-1]] == [row["from"] for row in rows[1:]]
    assert len({row["color"] for row in rows}) == 3


def test_more_causes_than_colours_are_one_grey_rest() -> None:
    rows = [row for row in drawn(chart(12)) if row["phase"] == "rollout"]
    assert rows[-1]["text"] == seconds.LEFT
    assert len(rows) == len({row["color"] for row in rows}) == len(seconds.CAUSE_COLORS)


def test_every_phase_says_its_seconds_beside_its_bar() -> None:
    words = [layer["data"]["values"] for layer in chart()["layer"] if layer["mark"].get("dx") == 8]
    assert [[row["text"] for row in rows] for rows in words] == [["8 s", "2 s"]]


def test_a_wide_interval_is_cut_at_the_plot_and_does_not_press_bars_flat() -> None:
    for most, end in ((9.0, 9.0), (900.0, seconds.WIDEST * 8.0)):
        spec = chart(most=most)
        assert x_of(spec)["scale"]["domain"][1] == pytest.approx(end * 1.02)
        lines = [one["mark"] for one in spec["layer"] if one["mark"]["type"] in ("rule", "tick")]
        assert lines and all(each["clip"] for each in lines)


def test_the_axis_has_the_unit_of_the_longest_phase() -> None:
    spec = chart(most=None, times=1500.0)
    assert x_of(spec)["title"] == "time in a step, h"
    assert x_of(spec)["scale"]["domain"][1] == pytest.approx(12_000 / 3600 * 1.02)


def test_a_phase_stands_and_is_clicked_where_its_memory_is() -> None:
    """So that nothing moves from tab to tab."""
    memory = bars.phase_bars(
        [Part(name, "logits", size) for name, size in TOTALS],
        [Peak(name, size, size, size, "fits", "") for name, size in TOTALS],
        capacity=80.0,
        unit="GiB",
        chosen="rollout",
    )
    time = chart(chosen="rollout")
    for key in ("height", "padding", "params"):
        assert time[key] == memory[key]
    orders = [one["layer"][0]["encoding"]["y"]["scale"]["domain"] for one in (time, memory)]
    assert orders[0] == orders[1] == [name for name, _ in TOTALS]


@pytest.mark.parametrize("mode", INK)
def test_intervals_have_the_visitors_ink(mode: str) -> None:
    marks = [one["mark"] for one in chart(ink=INK[mode])["layer"]]
    assert {one["color"] for one in marks if one["type"] in ("rule", "tick")} == {INK[mode]}
