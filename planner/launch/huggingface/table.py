"""A table of settings and the files that it makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.plan import Plan
from planner.values.setting import Setting
from planner.values.setting_files import names, without_field

HERE = Path(__file__).parent


def row(source: str, name: str, default: object, *fields: str, **more: Any) -> Setting:
    """A setting, which moves memory and seconds unless it says otherwise."""
    return Setting(name=name, default=default, source=source, fields=fields, **more)


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
    """The same rows, left out of exports."""
    return tuple(replace(row, write=None) for row in rows)


def no_effect() -> tuple[str, ...]:
    """Names that move neither memory nor seconds; ``earlier``: of transformers before 5."""
    below = {"training": "", "accelerate": "accelerate.", "deepspeed": "deepspeed.", "earlier": ""}
    return tuple(
        name
        for file, prefix in below.items()
        for name in names(HERE / "no_effect" / f"{file}.txt", prefix)
    )


def beyond(package: str, of: str, prefix: str = "") -> tuple[Setting, ...]:
    """Settings that no field has, of one of the files in ``beyond/``."""
    return without_field(HERE / "beyond" / f"{of}.jsonl", package, prefix)
