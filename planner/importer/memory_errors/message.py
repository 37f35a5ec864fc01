"""What a message says, as values; and what a form of messages is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Literal, NamedTuple

from planner.units import GIB, KIB, MIB

Cause = Literal[
    "shortage",
    "fragmentation",
    "another process",
    "process limit",
    "engine's share",
    "host RAM",
    "not said",
]
"""Why there was no memory, as far as the text says it."""

UNITS = {"bytes": 1, "B": 1, "kB": KIB, "KiB": KIB, "MiB": MIB, "GiB": GIB, "GB": GIB}
UNITS |= {"TiB": 1024 * GIB, "PiB": 1024**2 * GIB}
"""Ray's, vLLM's and verl's GB are of 2**30 bytes, the kernel's kB of 1024."""
MOST_BYTES = 2**50
"""Torch has printed 17179869184.00 GiB for what it could not ask; no card has as much."""


class Size(NamedTuple):
    """Bytes of a printed number: the least and the most that print so."""

    low: int
    high: int

    @property
    def bytes(self) -> int:
        """The middle."""
        return (self.low + self.high) // 2

    def holds(self, size_bytes: int) -> bool:
        """Whether so many bytes print so."""
        return self.low <= size_bytes <= self.high


def printed(number: str, unit: str, decimals: int | None = None) -> Size | None:
    """The bytes of a number as it stands in a text; None where no machine has them.

    Args:
        number: digits, with a point or without.
        unit: one of :data:`UNITS`.
        decimals: those that it was rounded to, where noughts at its end are not printed.
    """
    scale = UNITS[unit]
    if unit in ("bytes", "B"):
        decimals = 0
    elif decimals is None:
        decimals = len(number.partition(".")[2])
    middle, half = float(number) * scale, 0.5 * scale / 10**decimals if scale > 1 else 0.0
    if middle > MOST_BYTES:
        return None
    return Size(ceil(middle - half), floor(middle + half))


class Frame(NamedTuple):
    """A call of the traceback before a message."""

    file: str
    function: str
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of memory that was not there."""

    form: str
    """Whose sentence it is, such as ``torch`` or ``vLLM start``."""
    cause: Cause
    text: str
    """The sentence, on one line."""
    first_line: int
    last_line: int
    sizes: Mapping[str, Size] = field(default_factory=dict)
    """By name: ``asked``, ``total``, ``free``, ``allocated``, ``unallocated`` (reserved by torch
    and not allocated), ``in_use`` (by this process), ``others`` and the like."""
    said: Mapping[str, str] = field(default_factory=dict)
    """What else it names: a share, a length, a process."""
    gpu: int | None = None
    """As the process numbers its GPUs."""
    rank: int | None = None
    process: str = ""
    frames: tuple[Frame, ...] = ()
    """Outermost first; the last of many."""
    seen: int = 1
    """How often the text has it: of several ranks, or again where Ray hands it on."""

    def bytes(self, name: str) -> int | None:
        """The middle of a size; None where the text does not say it."""
        return self.sizes[name].bytes if name in self.sizes else None


Sizes = Mapping[str, Size]
Judged = tuple[Cause, Sizes]
SIZE = r"(\d{1,20}(?:\.\d{1,6})?) ?(bytes|kB|[KMGTP]iB|GB)"
"""A number and its unit."""


class Form(NamedTuple):
    """A sentence that somebody prints, found by words that it always has."""

    name: str
    words: str
    """A pattern without repetition."""
    cause: Cause | Callable[[dict[str, Size], str], Judged]
    """Or what finds it from sizes and text, with the sizes that follow from both."""
    sizes: Mapping[str, re.Pattern[str]] = {}
    """Patterns with a number and a unit each."""
    said: Mapping[str, re.Pattern[str]] = {}
    decimals: int | None = None
    """As for :func:`printed`."""
    begins: str = ""
    """How the sentence begins, where that is before the words."""
    ends: str = ""
    """The size that it ends with: up to there it may be wrapped over several lines."""


def patterns(**texts: str) -> dict[str, re.Pattern[str]]:
    """Compiled, with ``{S}`` for a number and its unit."""
    return {name: re.compile(text.replace("{S}", SIZE)) for name, text in texts.items()}
