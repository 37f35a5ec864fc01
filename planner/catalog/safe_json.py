"""Reading JSON that a stranger wrote: bounded size and depth, no NaN, no duplicate keys.

The one way in for a pasted, uploaded, linked or fetched ``config.json``. Standard
library only.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

MAX_BYTES = 256 * 1024
"""A config.json is 1 to 20 KB; the largest known, with per-layer lists, about 60 KB."""
MAX_DEPTH = 16
MAX_DIGITS = 40

TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def read_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object in ``text``; ``ValueError`` naming ``config`` for anything else."""
    if len(text) > MAX_BYTES:
        raise ValueError(f"config: more than {MAX_BYTES // 1024} KiB is not a config.json.")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError("config: the file is not UTF-8 text.") from None
    _refuse_deep(text)
    try:
        value = json.loads(
            text.removeprefix("\ufeff"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_int=_short_int,
        )
    except json.JSONDecodeError as error:
        raise ValueError(
            f"config: not valid JSON (line {error.lineno}, column {error.colno})."
        ) from None
    if not isinstance(value, dict):
        raise ValueError("config: a config.json is one JSON object in braces.")
    return value


def _refuse_deep(text: str) -> None:
    depth = 0
    for token in TOKENS.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"config: nested deeper than {MAX_DEPTH} levels.")
        elif token[0] in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"config: {key[:64]!r} stands twice.")
        found[key] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"config: {name} is not a number a config may hold.")


def _short_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"config: a whole number of {len(digits)} digits is absurd.")
    return int(digits)
