"""The committed table: each plan's link, digests of all that it was told, and a few figures.

A line of JSON a plan, compressed (``xzcat accuracy/measured/pinned.jsonl.xz``).
"""

from __future__ import annotations

import hashlib
import json
import lzma
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from accuracy.pinned.record import Record

FILE = Path(__file__).parents[1] / "measured" / "pinned.jsonl.xz"
DIGITS = 11
"""Of seconds: enough to see a difference of :data:`NO_DIFFERENCE`."""
NO_DIFFERENCE = 1e-9
"""Of seconds, relative: a sum made in another order is no other number."""
DIGESTED = {
    "bytes": ("bytes", "categories"),
    "terms": ("instant", "terms", "terms at least", "terms at most"),
    "instants": ("instants",),
}
"""What of every phase each digest is made of; beside them is one of the words."""


class Row(NamedTuple):
    """A plan in the table."""

    link: str
    word: str
    """The verdict's."""
    step_seconds: float | None
    phases: Mapping[str, tuple[int, int, float | None]]
    """Each phase's requested bytes, device bytes and seconds."""
    digests: Mapping[str, str]


def row_of(link: str, found: Record) -> Row:
    """What the table has of a plan."""
    phases = found.get("phases", {})
    digests = {
        name: _digest([[phase[part] for part in parts] for phase in phases.values()])
        for name, parts in DIGESTED.items()
    }
    return Row(
        link,
        found["words"].get("word", "refused"),
        _short(found.get("seconds", {}).get("step")),
        {name: _figures(phase) for name, phase in phases.items()},
        {**digests, "words": _digest(found["words"])},
    )


def _figures(phase: Mapping[str, Any]) -> tuple[int, int, float | None]:
    return phase["bytes"]["requested"], phase["bytes"]["device"], _short(phase["seconds"])


def _short(seconds: float | None) -> float | None:
    return None if seconds is None else float(f"{seconds:.{DIGITS}g}")


def _digest(found: Any) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:8]


def write(rows: Iterable[Row]) -> None:
    """Write the table anew."""
    with lzma.open(FILE, "wt", encoding="utf-8", preset=9) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def read(plans: int | None = None) -> list[Row]:
    """The table's first plans, or all."""
    with lzma.open(FILE, "rt", encoding="utf-8") as file:
        return [Row(*json.loads(line)) for line in islice(file, plans)]


def same(before: float | str | None, now: float | str | None) -> bool:
    """Whether two figures are one: bytes and words exactly, seconds within a sum's rounding."""
    if isinstance(before, float) and isinstance(now, float):
        return math.isclose(before, now, rel_tol=NO_DIFFERENCE)
    return before == now


def moved(before: Row, now: Row) -> Iterator[str]:
    """What of a plan is not what it was, a line each."""
    if before.word != now.word:
        yield f"verdict: {before.word} -> {now.word}"
    if not same(before.step_seconds, now.step_seconds):
        yield f"step: {before.step_seconds} -> {now.step_seconds} seconds"
    for name in [*before.phases, *(now.phases.keys() - before.phases)]:
        told, tells = before.phases.get(name, ()), now.phases.get(name, ())
        if not (told and tells):
            yield f"{name}: the phase is {'new' if tells else 'gone'}"
        for what, one, other in zip(("requested", "device", "seconds"), told, tells, strict=False):
            if not same(one, other):
                yield f"{name}, {what}: {one} -> {other}"
    for part, digest in before.digests.items():
        if digest != now.digests[part]:
            yield f"{part} are others"
