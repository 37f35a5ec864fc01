"""How TRL's rows are made: each with its file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner.launch.huggingface import table
from planner.values.setting import Setting
from planner.values.setting_files import without_field

RELEASE = "trl 1.16.0"


def row(at: str, name: str, default: object, *fields: str, **more: Any) -> Setting:
    """A setting with fields; ``at`` is file and line below ``trl/``, such as ``a.py:7``."""
    return table.row(f"{RELEASE}, {at.replace(':', ', line ')}", name, default, *fields, **more)


def beyond(of: str) -> tuple[Setting, ...]:
    """Settings that no field has, of one of the files in ``beyond/``."""
    return without_field(Path(__file__).parent / "beyond" / f"{of}.jsonl", RELEASE)
