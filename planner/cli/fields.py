"""``planner fields``: every field of a plan, its values, default and meaning, as Markdown."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from planner.plan import Plan, choices

HEADING = """# The fields of a plan

`python -m planner fields` writes this page; a test compares the page with the command's output.
Fields have the same names in a link. A field that is left out gets what its method, framework and
GPUs make usual (`planner/plan/defaults.py`), or the default below.

"""


def register(parser: argparse.ArgumentParser) -> None:
    """Has no arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Prints the table."""
    print("\n".join(lines()))
    return 0


def lines() -> Iterator[str]:
    """The page's lines."""
    yield from HEADING.splitlines()
    yield "| field | values | default | meaning |"
    yield "|---|---|---|---|"
    for name, info in Plan.model_fields.items():
        default = f"`{info.default!r}`" if info.default != "" else "empty"
        yield f"| `{name}` | {_values(name, info.annotation)} | {default} | {info.description} |"


def _values(field: str, annotation: Any) -> str:
    if choices(field):
        return " ".join(f"`{value}`" for value in choices(field))
    return {int: "whole number", float: "number", bool: "true or false", str: "text"}[annotation]
