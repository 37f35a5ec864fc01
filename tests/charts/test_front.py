"""The front's chart: every point inside the axes with its bars, named on the side with room."""

from __future__ import annotations

import altair as alt
import pandas as pd

from planner.charts.front import CHOSEN, front

ROWS = pd.DataFrame(
    {
        "place": [0, 1],
        "name": ["1 × A", "8 × A"],
        "word": ["fits", "tight"],
        "hours": [40.0, 6.0],
        "low_hours": [8.0, 1.0],
        "high_hours": [70.0, 11.0],
        "usd": [120.0, 160.0],
        "low_usd": [25.0, 30.0],
        "high_usd": [210.0, 280.0],
    }
)


def test_axes_hold_every_interval_and_the_specification_is_one() -> None:
    spec = front(ROWS, 1)
    checked = {**spec, "datasets": {"rows": ROWS.to_dict("records")}}
    alt.Chart.from_dict(checked)
    lines, *_ = spec["layer"]
    for channel, name in (("x", "hours"), ("y", "usd")):
        low, high = lines["encoding"][channel]["scale"]["domain"]
        assert low < ROWS[f"low_{name}"].min() and high > ROWS[f"high_{name}"].max()
    assert spec["params"][0]["name"] == CHOSEN and spec["params"][0]["views"] == ["points"]


def test_names_stand_on_the_side_with_room() -> None:
    texts = [one for one in front(ROWS)["layer"] if one["mark"]["type"] == "text"]
    sides = {one["transform"][0]["filter"][12]: one["mark"]["align"] for one in texts}
    assert sides == {"<": "left", ">": "right"}


def labels(rows: pd.DataFrame, place: int) -> list[str]:
    return list(front(rows, place)["datasets"]["rows"]["label"])


def test_points_are_named_by_what_tells_them_apart() -> None:
    assert labels(ROWS, 0) == ["1", "8 GPUs"], "the fastest says what the numbers are"
    assert labels(ROWS.iloc[[0]], 0) == ["1 GPU"]
    between = ROWS.iloc[[0]].assign(place=2, hours=20.0, name="4 × B")
    more = ROWS.iloc[[0]].assign(place=3, hours=10.0, name="6 × B")
    rows = pd.concat([ROWS, between, more])
    assert labels(rows, 0) == ["1 × A", "8 × A", "", ""], "the ends, where names are long"
    assert labels(rows, 3) == ["1 × A", "8 × A", "", "6 × B"], "and the chosen one"
