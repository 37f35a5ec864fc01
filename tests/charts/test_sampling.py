"""Sampling's charts as the specification a browser draws."""

from __future__ import annotations

import json

import pandas as pd

from planner.charts import sampling

BARS = pd.DataFrame(
    [("Embedding", "model", 1.0, 3.0, "1 s"), ("Embedding", "embeddings", 2.0, 3.0, "1 s")],
    columns=["stage", "part", "memory", "total", "time"],
)
CURVE = pd.DataFrame(
    [(28_000, "online", 1.0, True), (280_000, "online", 9.0, True)],
    columns=["prompts", "mode", "memory", "chosen"],
)


def test_capacity_is_drawn_where_it_is_near_and_left_out_where_it_would_press_bars_flat() -> None:
    for capacity, drawn in ((24.0, True), (200.0, False), (None, False)):
        chart = sampling.stage_bars(BARS, capacity=capacity, name="host RAM", unit="GiB").to_dict()
        label = f'"{capacity:,.1f} GiB"' if capacity else "no label"
        assert (label in json.dumps(chart)) == drawn


def test_the_curve_has_the_capacity_line_and_the_plans_place() -> None:
    chart = sampling.growth(CURVE, capacity=24.0, here=28_000, unit="GiB").to_dict()
    assert "host RAM: 24.0 GiB" in json.dumps(chart)
    assert [layer["mark"]["type"] for layer in chart["layer"]].count("rule") == 2
    assert chart["layer"][1]["encoding"]["y"]["scale"]["type"] == "log"
