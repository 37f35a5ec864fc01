"""A table of settings and the files that it makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.plan import Plan
from planner.values.setting import Setting


def row(source: str, name: str, default: object, *fields: str, **more: Any) -> Setting:
    """A setting, which moves memory and seconds unless it says otherwise."""
    told = {"moves": "both", **more}
    return Setting(name=name, default=default, source=source, fields=fields, **told)


def written(rows: Iterable[Setting], plan: Plan) -> dict[str, object]:
    """By name, what an export says of a plan, in the table's order."""
    found = {row.name: row.write(plan) for row in rows if row.write is not None}
    return {name: value for name, value in found.items() if value is not None}


def nested(values: Mapping[str, object], prefix: str) -> dict[str, Any]:
    """Dotted names below a prefix as a file has them: sections within sections."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        *sections, last = name.removeprefix(prefix).split(".")
        part = found
        for section in sections:
            part = part.setdefault(section, {})
        part[last] = value
    return found


def unwritten(rows: Iterable[Setting]) -> tuple[Setting, ...]:
    """The same rows where an export leaves them to the framework."""
    return tuple(replace(row, write=None) for row in rows)


def no_effect() -> tuple[str, ...]:
    """Names that move neither memory nor seconds, those of each of the three in a file."""
    folder = Path(__file__).parent / "no_effect"
    below = {"training": "", "accelerate": "accelerate.", "deepspeed": "deepspeed."}
    below["earlier"] = ""  # of releases of transformers before 5
    return tuple(
        prefix + name
        for file, prefix in below.items()
        for name in (folder / f"{file}.txt").read_text("utf-8").split()
    )
