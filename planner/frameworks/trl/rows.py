"""How TRL's rows are made: each with its file and line."""

from __future__ import annotations

from typing import Any

from planner.launch.huggingface import table
from planner.values.setting import Setting


def row(at: str, name: str, default: object, *fields: str, **more: Any) -> Setting:
    """A setting with fields; ``at`` is file and line below ``trl/``, such as ``a.py:7``."""
    source = f"trl 1.16.0, {at.replace(':', ', line ')}"
    return table.row(source, name, default, *fields, **more)


def other(at: str, name: str, default: object, moves: Any, otherwise: str) -> Setting:
    """A setting that no field has."""
    return row(at, name, default, moves=moves, otherwise=otherwise)
