"""What ``--over`` accepts."""

import pytest

from planner.cli.sweep import parse_axis
from planner.problem import PlanError


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("response_tokens=512:16384", [512, 1024, 2048, 4096, 8192, 16384]),
        ("response_tokens=512:3000", [512, 1024, 2048, 3000]),
        ("gpus=8:8", [8]),
        ("steps=1:9:5", [1, 3, 5, 7, 9]),
        ("steps=1:3:5", [1, 2, 3]),
        ("gpus=1,8,2", [1, 8, 2]),
        ("gpu_memory_utilization=0.2:0.8:4", [0.2, 0.4, 0.6, 0.8]),
        ("finetuning=full,lora", ["full", "lora"]),
        ("entropy=true,false", [True, False]),
    ],
)
def test_values_of_an_axis(text: str, points: list[object]) -> None:
    field, values = parse_axis(text)
    assert field == text.partition("=")[0]
    assert values == pytest.approx(points) if isinstance(points[0], float) else values == points


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("respons_tokens=1:2", "not a field"),
        ("gpus", "''"),
        ("gpus=8:1", "backwards"),
        ("gpus=0:8", "above 0"),
        ("gpus=1:8:1", "number of points"),
        ("gpus=1:8:9999999", "number of points"),
        ("gpus=1:2:3:4", "lo:hi"),
        ("gpus=1,1", "twice"),
        ("gpus=1,x", "'x' is not a whole number"),
        ("model=a:b", "only numbers"),
    ],
)
def test_what_is_no_axis_is_refused_with_the_field(text: str, says: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_axis(text)
    [problem] = caught.value.problems
    assert says in problem.message
    assert "field=512:16384" in problem.fix
