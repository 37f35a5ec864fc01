"""Published memory figures, read from published.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from planner.units import GIB

UNIT_BYTES = {"GiB": GIB, "MB": 10**6}
FILE = Path(__file__).with_name("published.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published run: what was run, what was measured, and who says so."""

    id: str
    framework: str
    model: str
    tuning: str
    algorithm: str
    gpus: int
    gpu: str
    bytes: int
    metric: str
    confidence: str
    source: str
    stages: tuple[tuple[str, int], ...]

    def stage(self, name: str) -> int:
        """Bytes of a named stage of the same run; ``KeyError`` when it has none."""
        return dict(self.stages)[name]


@cache
def rows() -> tuple[Row, ...]:
    """Every published row, in the file's order."""
    return tuple(_row(raw) for raw in json.loads(FILE.read_text("utf-8"))["rows"])


def row(name: str) -> Row:
    """The row with this id; ``KeyError`` when there is none."""
    return {row.id: row for row in rows()}[name]


def _row(raw: dict[str, Any]) -> Row:
    peak = raw["peak"]
    unit = UNIT_BYTES[peak["unit"]]
    return Row(
        id=raw["id"],
        framework=raw["framework"],
        model=raw["model"],
        tuning=raw["tuning"],
        algorithm=raw["algorithm"],
        gpus=raw["num_gpus"],
        gpu=raw["gpu"],
        bytes=round(peak["value"] * unit),
        metric=peak["metric"],
        confidence=raw["confidence"],
        source=_source(raw["source"]),
        stages=tuple((name, round(v * unit)) for name, v in peak.get("stages", {}).items()),
    )


def _source(source: dict[str, str]) -> str:
    if "ref" in source:
        return source["ref"]
    if "repo" in source:
        at = source.get("commit") or source.get("branch", "")
        return f"{source['repo']}@{at} {source['path']}"
    return source["type"]
