"""A plan's field as the one canonical text that links carry, and back.

Integers are decimal, floats Python's shortest exact form, booleans ``true`` and
``false``, everything else itself. Ranges and choices are the plan's business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_origin

from planner.plan import Plan

_INTEGER = re.compile(r"-?[0-9]{1,17}")
_FLOAT = re.compile(r"-?([0-9]{1,17}(\.[0-9]{0,24})?|\.[0-9]{1,24})(e[+-]?[0-9]{1,3})?", re.I)


def _kind(annotation: Any) -> type:
    if get_origin(annotation) is not None:
        return str  # every Literal of a plan is a choice of strings; a test holds this
    assert annotation in (int, float, bool, str), annotation
    return annotation  # type: ignore[no-any-return]


KINDS: Mapping[str, type] = {
    name: _kind(info.annotation) for name, info in Plan.model_fields.items()
}
"""Python type of each field: ``int``, ``float``, ``bool`` or ``str``."""


def to_text(value: int | float | bool | str) -> str:
    """The canonical text of a field's value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def from_text(field: str, text: str) -> int | float | bool | str:
    """The value that a text stands for in this field.

    Raises:
        ValueError: the text is not of the field's kind; the message says what is.
        KeyError: there is no such field.
    """
    kind = KINDS[field]
    text = text.strip()
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("is not true or false")
        return text.lower() == "true"
    if kind is int:
        if not _INTEGER.fullmatch(text):
            raise ValueError("is not a whole number")
        return int(text)
    if kind is float:
        if not _FLOAT.fullmatch(text):
            raise ValueError("is not a number")
        return float(text)
    return text
