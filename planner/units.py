"""Bytes, seconds and dollars, and how a person reads them. The only place that converts.

Inside the package memory is ``int`` bytes, time ``float`` seconds, money USD.
"""

from __future__ import annotations

KIB = 1024
MIB = 1024**2
GIB = 1024**3
GB = 10**9


def gib(size_bytes: float) -> float:
    """Bytes as GiB (2**30 bytes)."""
    return size_bytes / GIB


def read_bytes(size_bytes: float) -> str:
    """Bytes as a person reads them: ``61.2 GiB``, ``12 MiB``, ``512 B``."""
    magnitude = abs(size_bytes)
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if magnitude >= unit:
            value = size_bytes / unit
            return f"{value:,.0f} {name}" if abs(value) >= 1000 else f"{value:.3g} {name}"
    return f"{size_bytes:.0f} B"


def read_gib(size_bytes: float) -> str:
    """Bytes in GiB with one decimal and no unit, for sentences that name the unit once."""
    return f"{size_bytes / GIB:,.1f}"


def read_seconds(seconds: float) -> str:
    """Seconds as a person reads them: ``2.4 h``, ``3.1 min``, ``42 s``, ``18 ms``."""
    if seconds >= 86400:
        return f"{seconds / 86400:.1f} days"
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 60:
        return f"{seconds / 60:.1f} min"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms"


def read_usd(usd: float) -> str:
    """Dollars as a person reads them: ``$1,234`` or ``$0.12``."""
    return f"${usd:,.0f}" if usd >= 100 else f"${usd:,.2f}"


def read_count(count: int, noun: str) -> str:
    """So many of something: ``1 GPU``, ``1,024 GPUs``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def read_number(value: object) -> str:
    """A formula's input: integers with thousands separators, floats to four digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}"
