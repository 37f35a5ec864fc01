"""Bytes, seconds and dollars, and how a person reads them. The only place that converts.

Inside the package memory is ``int`` bytes, time ``float`` seconds, money USD.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    """Seconds as a person reads them: ``2.4 h``, ``3.1 min``, ``42.0 s``, ``1.80 ms``."""
    unit, name = _time_unit(seconds)
    return f"{_in_unit(seconds, unit)} {name}"


def read_seconds_between(seconds: float, low: float | None, high: float | None) -> str:
    """The same with its interval, in one unit where that is readable: ``4.2 min (3.1–6.0)``."""
    unit, _ = _time_unit(seconds)
    if high is not None and high >= 1000 * unit:
        return read_seconds(seconds) + _bounds(low, high, read_seconds)
    return read_seconds(seconds) + _bounds(low, high, lambda each: _in_unit(each, unit))


def read_seconds_bounds(seconds: float, low: float, high: float) -> str:
    """The interval alone, in the figure's unit where that is readable: ``3.1–6.0 min``."""
    unit, name = _time_unit(high if high >= 1000 * _time_unit(seconds)[0] else seconds)
    return f"{_in_unit(low, unit)}–{_in_unit(high, unit)} {name}"


TIMES = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))


def _time_unit(seconds: float) -> tuple[float, str]:
    return next((each for each in TIMES if seconds >= each[0]), TIMES[-1])


def _in_unit(seconds: float, unit: float) -> str:
    value = seconds / unit
    if unit > 1:
        return f"{value:.1f}"
    if value >= 999.5:
        return f"{value:,.0f}"
    # Three digits, noughts too: 4.70 beside 6.71.
    return f"{value:#.3g}".removesuffix(".") if value >= 0.001 else f"{value:.3g}"


def _bounds(low: float | None, high: float | None, read: Callable[[float], str]) -> str:
    """An interval behind a figure; nothing where nobody knows one."""
    return "" if low is None or high is None else f" ({read(low)}–{read(high)})"


def read_usd(usd: float) -> str:
    """Dollars as a person reads them: ``$1,234`` or ``$0.12``."""
    return f"${usd:,.0f}" if usd >= 100 else f"${usd:,.2f}"


def read_usd_between(usd: float, low: float | None, high: float | None) -> str:
    """The same with its interval: ``$175 ($88–$351)``."""
    digits = 0 if usd >= 100 else 2
    return read_usd(usd) + _bounds(low, high, lambda each: f"${each:,.{digits}f}")


def read_usd_bounds(low: float, high: float) -> str:
    """The interval alone: ``$88–$351``."""
    digits = 0 if high >= 100 else 2
    return f"${low:,.{digits}f}–${high:,.{digits}f}"


def read_figure_between(value: float, low: float | None, high: float | None) -> str:
    """A rate or an amount to three digits, with its interval: ``3,627 (1,813–7,253)``."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 4
    return f"{value:,.{digits}f}" + _bounds(low, high, lambda each: f"{each:,.{digits}f}")


def read_share_between(share: float, low: float | None, high: float | None) -> str:
    """A share of a peak: ``34% (17–68)``."""
    return f"{share:.0%}" + _bounds(low, high, lambda each: f"{100 * each:.0f}")


def read_parameters(count: int, active: int | None = None) -> str:
    """Parameters as a model's name has them: ``7.6B``, or ``30.5B, 3.4B active``."""
    if active is not None and active < count:
        return f"{read_parameters(count)}, {read_parameters(active)} active"
    return f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.0f}M"


def read_count(count: int, noun: str) -> str:
    """So many of something: ``1 GPU``, ``1,024 GPUs``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def read_listed(names: Sequence[str]) -> str:
    """Words in a row: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def read_number(value: object) -> str:
    """A formula's input: integers with thousands separators, floats to four digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}"
