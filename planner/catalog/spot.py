"""Decoders that nobody derived and the catalog does not hold: coefficients measured on the spot.

A dry run of a few layers writes them (:mod:`planner.dryrun.run.spot`, in a process of its own),
this module keeps them on disk under a key of the config, the libraries' versions and our own
code. A link carries the config alone: whoever opens it measures anew, or has measured before.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from planner import disk_cache

FOLDER = "coefficients"
PREFIX = "spot-"
PACKAGE = Path(__file__).resolve().parents[1]
CODE = ("dryrun/run/**/*.py", "steps/**/*.py", "formulas/length_law.py", "formulas/polynomial.py")
"""Where the code lies whose change makes measurements old."""

MOST_LAYERS = 1000
MOST_EXPERTS = 1 << 16
MOST_ENTRIES = 2000
MOST_NUMBER = 1 << 31
LONGEST_TEXT = 200
WIDEST = 1 << 21
LAYERS = re.compile(r"layers$|^n_layers?$|blocks?$|cycles$|^depth$")
EXPERTS = re.compile(r"experts$")
SIZES = re.compile(r"size$|_dim$|_rank$|^d_|^n_embd|heads$")
NOT_TAKEN = re.compile(
    r"^_|implementation$|^auto_map$|^name_or_path$|^architectures$|^transformers_version$"
    r"|^(torch_)?dtype$|^base_model_|^quantization_config$|^kernel|^use_kernels$|^seen$"
    r"|^trust_remote_code$|^output_(hidden_states|attentions)$|^return_dict$|^use_cache$"
)
"""What names code, kernels or a way to run, and no size: never handed on."""

_known: dict[str, Mapping[str, Any]] = {}

Measure = Callable[[str, Mapping[str, Any], tuple[str, ...]], None]
"""Measures and keeps: the key, the canonical config, and the settings."""
_measure: ContextVar[Measure | None] = ContextVar("measure", default=None)


@contextmanager
def measuring(measure: Measure) -> Iterator[None]:
    """Inside, what is missing is measured when it is asked for, by ``measure``."""
    before = _measure.set(measure)
    try:
        yield
    finally:
        _measure.reset(before)


def required(key: str, config: Mapping[str, Any], names: tuple[str, ...] = ()) -> None:
    """Have settings measured, where somebody measures; else nothing happens."""
    measure = _measure.get()
    if measure is not None:
        measure(key, {name: value for name, value in config.items() if name != "seen"}, names)


def canonical(config: Mapping[str, Any]) -> dict[str, Any]:
    """What of a stranger's config is handed on, bounded before anything is built of it.

    Raises:
        ValueError: naming the field that is too large.
    """
    return {key: _bounded(key, value) for key, value in config.items() if not NOT_TAKEN.search(key)}


def _bounded(key: str, value: Any) -> Any:
    shown = key[:40] if key.isidentifier() else repr(key[:40])
    if isinstance(value, Mapping):
        return canonical(value)
    if isinstance(value, list):
        if len(value) > MOST_ENTRIES:
            raise ValueError(f"config: {shown} is a list of more than {MOST_ENTRIES:,} entries.")
        return [_bounded("", each) for each in value]
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ValueError(f"config: {shown} is a text of more than {LONGEST_TEXT} characters.")
    if isinstance(value, int) and not isinstance(value, bool):
        most = MOST_NUMBER
        for pattern, limit in ((LAYERS, MOST_LAYERS), (EXPERTS, MOST_EXPERTS), (SIZES, WIDEST)):
            most = limit if pattern.search(key) else most
        if abs(value) > most:
            raise ValueError(f"config: {shown} is {value:,}, more than {most:,}.")
    return value


def key_of(config: Mapping[str, Any]) -> str:
    """What a measurement of a canonical config is found by."""
    asked = {
        "config": {key: value for key, value in config.items() if key != "seen"},
        "versions": versions(),
        "code": _code(),
    }
    text = json.dumps(asked, sort_keys=True)
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def versions() -> dict[str, str]:
    """Versions of the libraries that are measured, read without importing them."""
    found = {}
    for name in ("torch", "transformers"):
        try:
            found[name] = version(name).partition("+")[0]
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for part in CODE:
        for path in sorted(PACKAGE.glob(part)):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def found(key: str, *, afresh: bool = False) -> Mapping[str, Any] | None:
    """The measurement under a key, or None; one that was refused holds ``error`` alone.

    ``afresh`` reads the disk, where another process may have added settings.
    """
    if afresh or key not in _known:
        entry = disk_cache.load(disk_cache.folder(FOLDER), key)
        if entry is None or not ("settings" in entry or "error" in entry):
            return _known.get(key)
        _known[key] = entry
    return _known[key]


def supply(key: str, entry: Mapping[str, Any]) -> None:
    """Take a measurement that was made before, for as long as this process runs."""
    _known.setdefault(key, entry)


def keep(key: str, entry: Mapping[str, Any]) -> None:
    """Remember a measurement here and on disk; a disk that is full only costs the next one time."""
    before = found(key) or {}
    if "settings" in before and "settings" in entry:
        joined = {part: {**before[part], **entry[part]} for part in ("settings", "refused")}
        entry = {**entry, **joined}
    _known[key] = entry
    disk_cache.save(disk_cache.folder(FOLDER), key, entry)
