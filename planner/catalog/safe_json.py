"""Reading JSON that a stranger wrote: bounded size and depth, no NaN, no duplicate keys.

``Infinity`` is read where transformers itself writes it: Mamba's ``time_step_limit`` ends there.

The one way in for a pasted, uploaded, linked or fetched ``config.json``, for a file of a card's
benchmark, and for one of plans. Standard library only.
"""

from __future__ import annotations

import json
import re
from functools import partial
from math import inf
from typing import Any

MAX_BYTES = 256 * 1024
"""A config.json is 1 to 20 KB; the largest known, with per-layer lists, about 60 KB."""
MAX_DEPTH = 16
MAX_DIGITS = 40

TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def read_object(
    text: str | bytes,
    field: str = "config",
    what: str = "config.json",
    *,
    infinity: bool = False,
    most_bytes: int = MAX_BYTES,
) -> dict[str, Any]:
    """The JSON object in ``text``; ``ValueError`` naming ``field`` for anything else.

    ``infinity`` reads ``Infinity``, which JSON does not have, as a number. ``most_bytes`` is for
    what may be larger than any config.json.
    """
    if len(text) > most_bytes:
        raise ValueError(f"{field}: more than {most_bytes // 1024} KiB is not a {what}.")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(f"{field}: the file is not UTF-8 text.") from None
    _refuse_deep(text, field)
    try:
        value = json.loads(
            text.removeprefix("\ufeff"),
            object_pairs_hook=partial(_unique, field),
            parse_constant=partial(_constant, field, infinity),
            parse_int=partial(_short_int, field),
        )
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{field}: not valid JSON (line {error.lineno}, column {error.colno})."
        ) from None
    if not isinstance(value, dict):
        raise ValueError(f"{field}: a {what} is one JSON object in braces.")
    return value


def _refuse_deep(text: str, field: str) -> None:
    depth = 0
    for token in TOKENS.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"{field}: nested deeper than {MAX_DEPTH} levels.")
        elif token[0] in "]}":
            depth -= 1


def _unique(field: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        key = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"{field}: {key[:64]!r} stands twice.")
    return found


def _constant(field: str, infinity: bool, name: str) -> float:
    if infinity and name == "Infinity":
        return inf
    raise ValueError(f"{field}: {name} is not a number a {field} may hold.")


def _short_int(field: str, digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"{field}: a whole number of {len(digits)} digits is absurd.")
    return int(digits)
