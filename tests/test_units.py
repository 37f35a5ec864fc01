"""Figures with their intervals, as a person reads them."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest

from planner import units


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [
        (252.0, 186.0, 360.0, "4.2 min (3.1–6.0)"),
        (45.2, 22.6, 90.4, "45.2 s (22.6–90.4)"),
        (0.0148, 0.0042, 1.6, "14.8 ms (4.20 ms–1.60 s)"),
        (7200.0, 1800.0, 90_000.0, "2.0 h (0.5–25.0)"),
        (45.2, None, None, "45.2 s"),
    ],
)
def test_an_interval_is_in_the_unit_of_its_figure(
    value: float, low: float | None, high: float | None, said: str
) -> None:
    assert units.read_seconds_between(value, low, high) == said


def test_an_interval_alone_names_its_unit() -> None:
    assert units.read_seconds_bounds(45.2, 22.6, 90.4) == "22.6–90.4 s"
    assert units.read_seconds_bounds(252.0, 30.0, 360.0) == "0.5–6.0 min"
    assert units.read_seconds_bounds(0.0148, 0.0042, 90.0) == "0.0–1.5 min"
    assert units.read_usd_bounds(88.0, 1351.0) == "$88–$1,351"


def test_dollars_of_an_interval_have_the_digits_of_the_figure() -> None:
    assert units.read_usd_between(175.4, 88.2, 351.0) == "$175 ($88–$351)"
    assert units.read_usd_between(0.35, 0.2, 120.0) == "$0.35 ($0.20–$120.00)"
    assert units.read_usd_between(0.35, None, None) == "$0.35"


def test_rates_and_shares_have_three_digits() -> None:
    assert units.read_figure_between(3626.7, 1813.4, 7253.4) == "3,627 (1,813–7,253)"
    assert units.read_figure_between(50.19, 25.1, 100.4) == "50.2 (25.1–100.4)"
    assert units.read_share_between(0.338, 0.17, 0.68) == "34% (17–68)"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *[(4.7, "4.70 s"), (6.714, "6.71 s"), (11.0, "11.0 s"), (0.0001, "0.100 ms")],
        *[(0.83, "830 ms"), (0.99951, "1,000 ms"), (0.0, "0 ms"), (45.31, "45.3 s")],
    ],
)
def test_seconds_have_three_digits_noughts_too(seconds: float, said: str) -> None:
    assert units.read_seconds(seconds) == said


def test_a_percent_sign_stands_at_its_number_wherever_the_product_says_one() -> None:
    apart = [
        f"{path}: {node.value}"
        for path in sorted((Path(__file__).parents[1] / "planner").rglob("*.py"))
        for tree in [ast.parse(path.read_text(encoding="utf-8"))]
        for docstrings in [_docstrings(tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value not in docstrings and re.search(r"(\d|^) %(?!\w)", node.value)
    ]
    assert apart == []


def _docstrings(tree: ast.Module) -> set[str]:
    """Sentences for readers of the code: docstrings, and what stands below a constant."""
    alone = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return {str(one.value) for one in alone if isinstance(one, ast.Constant)}


def test_one_is_no_plural() -> None:
    assert units.read_count(1, "GPU") == "1 GPU"
    assert units.read_count(1024, "GPU") == "1,024 GPUs"
    assert units.read_count(0, "thing") == "0 things"


SEVERAL = {
    "2 * plan.gpus",  # of a plan that has one at the least
    "over",  # of an engine that they do not divide; one divides all
    "plan.gpus",  # more than a node's, or told apart beside it (plain/exporter.py)
}
"""What is written before "GPUs" and is never one."""


def test_a_number_of_gpus_is_written_with_its_noun() -> None:
    found = set()
    for path in (Path(units.__file__).parent).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for number, word in itertools.pairwise(parts):
                text = word.value if isinstance(word, ast.Constant) else ""
                if isinstance(number, ast.FormattedValue) and str(text).startswith(" GPUs"):
                    found.add(ast.unparse(number.value))
    assert found == SEVERAL
