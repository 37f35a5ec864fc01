"""How numbers are shown: GiB or GB, signed shares, words. Imports no Streamlit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.units import GB, GIB, read_number

UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of memory a person can choose to read."""

    name: str
    size_bytes: int

    def value(self, size_bytes: float) -> float:
        """Bytes in this unit."""
        return size_bytes / self.size_bytes

    def read(self, size_bytes: float | None) -> str:
        """Bytes with the unit: ``61.2 GiB``, ``0.04 GiB``; words when not known."""
        if size_bytes is None:
            return UNKNOWN
        value = self.value(size_bytes)
        if value and abs(value) < 0.01:
            name, thousandth = {"GiB": ("MiB", 1024), "GB": ("MB", 1000)}[self.name]
            return f"{value * thousandth:.2g} {name}"
        return f"{value:,.{2 if abs(value) < 1 else 1}f} {self.name}"


UNITS = {"GiB": Unit("GiB", GIB), "GB": Unit("GB", GB)}
"""GiB is 2**30 bytes, what the driver and torch count in; GB is 10**9, what sellers say."""


KINDS: Mapping[str, str] = {"engine": "vLLM", "device": "outside PyTorch"}
"""What a category of memory is called where its own word is no reader's."""


def kind_of(category: str) -> str:
    """A category of memory as a person reads it."""
    return KINDS.get(category, category)


def percent(share: float) -> str:
    """A share in percent, with a decimal only where it matters."""
    return f"{share:.1%}" if 0 < abs(share) < 0.01 else f"{share:.0%}"


def say(value: Any) -> str:
    """A field's value as a sentence says it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value) if value != "" else "nothing"


def interval(low: float | None, high: float | None) -> str:
    """A signed relative error: ``−7.0% to +12.3%``; words when nobody measured it."""
    if low is None or high is None:
        return "not measured"
    return f"{low:+.1%} to {high:+.1%}".replace("-", "−")


def put_in(expression: str, inputs: Mapping[str, Any]) -> str:
    """The expression with every input's value in its place."""
    return re.sub(
        r"[A-Za-z_]\w*",
        lambda word: read_number(inputs[word[0]]) if word[0] in inputs else word[0],
        expression,
    )


def plain(text: str) -> str:
    """Text from outside, so that Markdown shows it as it is and makes no link of it.

    Addresses are made links of after Markdown has been read, so a backslash does not help: an
    invisible word joiner parts the first dot of a host from what stands before it.
    """
    parted = re.sub(r"(?i)((?:://|@)[-\w+]*|www)\.(?=[-\w])", "\\1\u2060.", text)
    return re.sub(r"[\\`*_\[\]<>$#:|~]", r"\\\g<0>", parted)
