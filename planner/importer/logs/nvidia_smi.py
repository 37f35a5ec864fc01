"""nvidia-smi: the table, and CSV of ``--query-gpu`` with a column of used memory.

Everything on the card is in it, other processes too. Its MiB are of 2**20 bytes.
"""

from __future__ import annotations

import re

from planner.importer.lines import Log
from planner.importer.logs.measured import Figure, Measured
from planner.units import MIB

_TABLE = re.compile(r"\|\s{0,8}(\d{1,7})MiB\s{0,4}/\s{0,8}(\d{1,7})MiB\s{0,4}\|")
_CELL = re.compile(r"\s{0,8}(\d{1,7})(?: MiB)?\s{0,8}$")
USED = "memory.used"
MOST_ROWS = 5_000
ALL = "nvidia-smi counts every process on the card, engines and contexts of others included."


def read(log: Log) -> Measured | None:
    """The most that any card had in use; None where the text has no such line."""
    used = [
        int(there[1])
        for at in log.having(("MiB /",))
        if (there := _TABLE.search(log[at].text)) is not None
    ]
    for at in log.having((USED,))[:8]:
        columns = [name.strip() for name in log[at].text.split(",")]
        place = next((n for n, name in enumerate(columns) if name.startswith(USED)), None)
        if place is None:
            continue
        for row in range(at + 1, min(at + 1 + MOST_ROWS, len(log))):
            cells = log[row].text.split(",")
            if len(cells) != len(columns) or (cell := _CELL.match(cells[place])) is None:
                break
            used.append(int(cell[1]))
    if not used:
        return None
    figure = Figure("memory used", "device_bytes", float(max(used) * MIB))
    return Measured(form="nvidia-smi", steps=0, figures=(figure,), notes=(ALL,))
