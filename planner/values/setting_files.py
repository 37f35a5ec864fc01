"""Settings that need no code, in files beside a framework's table."""

from __future__ import annotations

import json
from pathlib import Path

from planner.values.setting import Setting


def names(file: Path, prefix: str = "") -> tuple[str, ...]:
    """The names in a list, one a line; ``#`` begins a comment."""
    lines = (line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines())
    return tuple(prefix + line for line in lines if line)


def without_field(
    file: Path, package: str = "", prefix: str = "", kind: type[Setting] = Setting
) -> tuple[Setting, ...]:
    """Settings that move memory or seconds and that no field of a plan has.

    Args:
        file: JSON, a row a line: name, default, source (``trainer/grpo_config.py:445``), what it
            moves, and which way it does so where it is not the default.
        package: What the sources are files of, with its version; empty: they stand as they are.
        prefix: Before every name.
        kind: Of the rows.
    """
    rows = map(json.loads, file.read_text("utf-8").splitlines())
    return tuple(
        kind(
            name=prefix + name,
            default=default,
            source=f"{package}, {source.replace(':', ', line ')}" if package else source,
            moves=moves,
            otherwise=otherwise,
        )
        for name, default, source, moves, otherwise in rows
    )
