"""``torch.cuda.memory_summary()``: peaks of the caching allocator (torch 2.13 cuda/memory.py)."""

from __future__ import annotations

import re

from planner.importer.lines import Log
from planner.importer.logs.measured import Figure, Measured, Quantity
from planner.importer.memory_errors.message import UNITS

ROWS: dict[str, Quantity] = {
    "Allocated memory": "allocated_bytes",
    "Requested memory": "requested_bytes",
    "GPU reserved memory": "reserved_bytes",
}
_SIZE = r"\s{0,8}(\d{1,9}) ([KMGTP]?i?B)\s{0,4}\|"
_ROW = re.compile(rf"\|\s{{0,4}}({'|'.join(ROWS)})\s{{0,20}}\|{_SIZE}{_SIZE}")
_RETRIES = re.compile(r"cudaMalloc retries: (\d{1,9})")


def read(log: Log) -> Measured | None:
    """The peaks; None where the text has no such table."""
    peaks: dict[str, float] = {}
    retries = 0
    for at in log.having((*ROWS, "cudaMalloc retries")):
        text = log[at].text
        if (there := _ROW.search(text)) is not None:
            size = float(int(there[4]) * UNITS[there[5]])
            peaks[there[1]] = max(size, peaks.get(there[1], 0.0))
        elif (again := _RETRIES.search(text)) is not None:
            retries = max(retries, int(again[1]))
    if not peaks:
        return None
    note = (
        f"The allocator gave its cache back {retries} times to go on, so the peaks are the card's "
        "and prove nothing above it."
    )
    figures = tuple(Figure(name, ROWS[name], peak) for name, peak in peaks.items())
    return Measured(
        form="torch's memory summary",
        steps=0,
        figures=figures,
        notes=(note,) if retries else (),
        censored=bool(retries),
    )
