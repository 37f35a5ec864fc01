"""A chart's specification in fewer bytes, as a browser gets it after every edit.

Rows stand in it as CSV, which names each column once, and their figures with six digits: of a chart
of bars that is a third. What is drawn, pointed at and clicked is the same.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any


def sent(part: Any) -> Any:
    """The specification, or a part of it, with each list of rows as CSV."""
    if isinstance(part, Mapping):
        rows = part.get("values")
        if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows):
            return {**part, **_written(rows)}
        return {name: sent(value) for name, value in part.items()}
    return [sent(value) for value in part] if isinstance(part, list) else part


def _written(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    kinds = {name: _kind(value) for row in rows for name, value in row.items() if value is not None}
    text = StringIO()
    writer = csv.DictWriter(text, [*kinds], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _short(value) for name, value in row.items()} for row in rows)
    return {"values": text.getvalue(), "format": {"type": "csv", "parse": kinds}}


def _kind(value: Any) -> str:
    return {bool: "boolean", str: "string"}.get(type(value), "number")


def _short(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else value
