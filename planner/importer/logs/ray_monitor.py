"""Ray's memory monitor: a node's host RAM when it killed a worker, and who held the most.

src/ray/raylet of Ray 2.2 to 2.60. The table of the top ten stands on lines of its own, or on one
with commas. Its GB are of 2**30 bytes.
"""

from __future__ import annotations

import re
from collections import Counter

from planner.importer.lines import Log
from planner.importer.logs.measured import Figure, Measured
from planner.units import GIB, read_bytes

TABLE = "Top 10 memory users"
CHARACTERS = 4_000
"""Of a table, at most."""
ALL = "A node's RAM counts every process on it and Ray's object store; its table has the largest."
MOST = 4
"""Commands that are told."""
NODE = "Memory on the node"
_USED = re.compile(r" was ([\d.]{1,9}) ?GB (?:used )?/ [\d.]{1,9} ?GB")
_ROW = re.compile(
    r"(?:\n|, )(?:\([^)\n]{1,80}\))? {0,4}\d{1,9}[ \t]{1,12}(\d{1,6}\.\d\d)[ \t]+([^\n,]{1,100})"
)


def read(log: Log) -> Measured | None:
    """The most that a node had in use, and the last table; None where the text has neither."""
    lines = (log[at].text.partition(NODE)[2][:600] for at in log.having((NODE,)))
    used = [float(there[1]) for line in lines if (there := _USED.search(line)) is not None]
    at = log.text.rfind(TABLE)
    held: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for size, command in _ROW.findall(log.text[at : at + CHARACTERS]) if at >= 0 else ():
        name = command.strip()
        held[name] += round(float(size) * GIB)
        count[name] += 1
    if not used and not held:
        return None
    held_by = (
        f"{name}: {read_bytes(size)}, {count[name]} of its processes together."
        for name, size in held.most_common(MOST)
    )
    return Measured(
        form="Ray's memory monitor",
        steps=0,
        figures=tuple(Figure("node's host RAM", "host_bytes", max(used) * GIB) for _ in used[:1]),
        notes=(ALL, *held_by),
    )
