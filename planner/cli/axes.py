"""``--over field=values`` of the sweep command."""

from __future__ import annotations

from typing import cast

from planner.plan.fieldtext import KINDS, from_text
from planner.problem import PlanError, Problem

MAX_POINTS = 100_000

Value = int | float | bool | str


def parse_axis(text: str) -> tuple[str, list[Value]]:
    """The field and its values in order.

    ``field=lo:hi`` doubles lo up to hi and includes hi, ``field=lo:hi:n`` takes n even
    steps, ``field=a,b,c`` is a list.

    Raises:
        PlanError: naming the field and what is accepted.
    """
    field, _, values = text.partition("=")
    field = field.strip()
    if field not in KINDS:
        raise PlanError((Problem(field, f"{field!r} is not a field of a plan.", _USAGE),))
    try:
        points = _range(field, values) if ":" in values else _list(field, values)
    except ValueError as error:
        raise PlanError((Problem(field, f"--over {text[:80]}: {error}.", _USAGE),)) from error
    return field, points


_USAGE = "Write field=512:16384, field=1:9:5 or field=1,2,8."


def _list(field: str, values: str) -> list[Value]:
    points = [_value(field, part) for part in values.split(",")]
    if len(set(points)) != len(points):
        raise ValueError("a value is given twice")
    return points


def _range(field: str, values: str) -> list[Value]:
    if KINDS[field] not in (int, float):
        raise ValueError("only numbers have a range")
    parts = values.split(":")
    if len(parts) not in (2, 3):
        raise ValueError("a range is lo:hi or lo:hi:n")
    low, high = (cast(float, _value(field, part)) for part in parts[:2])
    if low > high:
        raise ValueError("the range runs backwards")
    if len(parts) == 2:
        return _doublings(low, high)
    steps = cast(int, from_text("steps", parts[2]))
    if not 2 <= steps <= MAX_POINTS:
        raise ValueError(f"the number of points must be 2 to {MAX_POINTS}")
    exact = [low + (high - low) * step / (steps - 1) for step in range(steps)]
    return list(dict.fromkeys(map(round, exact) if KINDS[field] is int else exact))


def _doublings(low: float, high: float) -> list[Value]:
    if low <= 0:
        raise ValueError("doubling starts above 0")
    points: list[Value] = []
    while low < high:
        points.append(low)
        low *= 2
    return [*points, high]


def _value(field: str, text: str) -> Value:
    try:
        return from_text(field, text)
    except ValueError as error:
        raise ValueError(f"{text.strip()[:40]!r} {error}") from error
