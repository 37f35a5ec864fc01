"""Measured peaks, read from rows.json: figures and settings, with where they stand.

``peaks`` are bytes by the level that was measured: allocated and reserved (torch's counters),
device (nvidia-smi), or stated (a README's figure whose method is not said).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("rows.json")

LEVELS = ("allocated", "reserved", "device", "stated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run: what ran, how it ended (``ran``, ``out of memory``, ``no result``), its peaks."""

    id: str
    source: str
    framework: str
    gpus: int
    confidence: str
    outcome: str
    peaks: Mapping[str, int]
    settings: Mapping[str, Any]
    model: str = ""
    tuning: str = ""
    gpu: str = ""
    algorithm: str = ""
    path: str = ""
    version: str = ""
    card_size_only: bool = field(default=False)
    """The figure is the card's size, not a reading."""


@cache
def rows() -> tuple[Row, ...]:
    """Every row, in the file's order."""
    each = {name: told.get("of_each", {}) for name, told in _file()["sources"].items()}
    return tuple(Row(**each[raw["source"]], **raw) for raw in _file()["rows"])


@cache
def sources() -> Mapping[str, Mapping[str, str]]:
    """Repository → the commit that was read, and its licence where it states one."""
    told = _file()["sources"].values()
    return {
        one["repository"]: {key: one[key] for key in ("commit", "licence") if key in one}
        for one in told
    }


@cache
def _file() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found
