"""The chart of a step's time: stacked by cause, with intervals, readable when narrow."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from planner.charts import seconds
from planner.charts.marks import INK


def rows(causes: int = 3, most: float = 12.0) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "phase": phase,
            "cause": f"cause {number}",
            "role": "policy",
            "seconds": total / causes + (causes - number) * 1e-3,
            "total": total,
            "said": f"{total:g} s (1–{most:g})",
            "least": 1.0,
            "most": most,
        }
        for phase, total in (("rollout", 8.0), ("policy backward", 2.0))
        for number in range(causes)
    )


def layers(chart: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chart.to_dict()["layer"]
    return found


def test_bars_are_stacked_by_cause_longest_first() -> None:
    bars = layers(seconds.phase_seconds(rows()))[0]["encoding"]
    assert bars["x"]["stack"] == "zero"
    assert bars["color"]["scale"]["domain"] == ["cause 0", "cause 1", "cause 2"]
    assert len(set(bars["color"]["scale"]["range"])) == 3


def test_more_causes_than_colours_are_one_grey_rest() -> None:
    scale = layers(seconds.phase_seconds(rows(12)))[0]["encoding"]["color"]["scale"]
    assert scale["domain"][-1] == seconds.LEFT
    assert len(scale["domain"]) == len(set(scale["range"])) == len(seconds.CAUSE_COLORS)


def test_every_phase_says_its_seconds_and_their_interval_beside_its_name() -> None:
    chart = seconds.phase_seconds(rows())
    y = layers(chart)[0]["encoding"]["y"]
    assert y["sort"] == ["rollout|8 s (1–12)", "policy backward|2 s (1–12)"]
    assert "split" in y["axis"]["labelExpr"] and y["axis"]["labelOverlap"] is False


def test_a_wide_interval_is_cut_at_the_plot_and_does_not_press_bars_flat() -> None:
    for most, end in ((9.0, 9.0), (900.0, seconds.WIDEST * 8.0)):
        bar, line, *ends = layers(seconds.phase_seconds(rows(most=most)))
        assert bar["encoding"]["x"]["scale"]["domain"][1] == pytest.approx(end * 1.02)
        assert line["mark"]["clip"] and all(each["mark"]["clip"] for each in ends)


def test_the_axis_has_the_unit_of_the_longest_phase() -> None:
    long = rows().assign(seconds=4000.0, total=12_000.0, least=None, most=None)
    (bar,) = layers(seconds.phase_seconds(long))
    assert bar["encoding"]["x"]["title"] == "time in a step, h"
    assert bar["encoding"]["x"]["scale"]["domain"][1] == pytest.approx(12_000 / 3600 * 1.02)


@pytest.mark.parametrize("mode", INK)
def test_intervals_have_the_visitors_ink(mode: str) -> None:
    _, *lines = layers(seconds.phase_seconds(rows(), ink=INK[mode]))
    assert {each["mark"]["color"] for each in lines} == {INK[mode]}
