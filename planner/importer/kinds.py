"""Values as they were given (texts of a shell, mappings) as the kinds that a table's rows have."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.importer.given import Given
from planner.importer.reading import Entry, asked
from planner.values.setting import Setting

MOST = 4_194_304
"""Of what is counted: no run has more."""
DEEPEST = 16
"""Mappings within each other that are taken apart."""


def flat(givens: Iterable[Given], whole: Collection[str] = ()) -> Iterator[Given]:
    """A mapping as its entries, with dots in their names, but for settings that are mappings.

    An entry has no place: the one of its mapping would put one entry's value for all of them.
    """
    for one in givens:
        inside, apart = one.value, one.name not in whole and one.name.count(".") < DEEPEST
        if one.entries and apart:
            own = (replace(each, name=f"{one.name}.{each.name}") for each in one.entries)
            yield from flat(own, whole)
        elif isinstance(inside, Mapping) and inside and apart:
            entries = (
                replace(one, name=f"{one.name}.{name}", value=value, place=None)
                for name, value in inside.items()
            )
            yield from flat(entries, whole)
        else:
            yield one


def gathered(givens: Iterable[Given], rows: Collection[Setting]) -> Iterator[Given]:
    """What nests below a row that no field has, or one of a mapping, as that row's value."""
    table = {row.name: row for row in rows}
    whole: dict[str, Given] = {}
    for one in givens:
        section = one.name
        while section and section not in table:
            section = section.rpartition(".")[0]
        own = section and (table[section].whole or not table[section].fields)
        if own and section != one.name:
            first = whole.setdefault(section, replace(one, name=section, value={}, place=None))
            first.value[one.name.removeprefix(f"{section}.")] = one.value
        else:
            yield one
    yield from whole.values()


def of_kinds(
    givens: Iterable[Given], rows: Iterable[Setting], wrong: list[Entry]
) -> Iterator[Given]:
    """Texts as the values that rows have; what is none goes into ``wrong``, with a sentence.

    What nobody said is left as it is: it is asked for.
    """
    table = {row.name: row for row in rows}
    for one in givens:
        row = table.get(one.name)
        if asked(one.opens):
            yield one
            continue
        try:
            value = typed(one.value, row.default if row else None)
            if row is not None and row.whole and isinstance(value, str):
                value = _mapping(value)
            if row is not None and row.unit and value is not None:
                _counted(value, row.unit)
            yield replace(one, value=value)
        except ValueError as error:
            fields = row.fields if row else ()
            wrong.append(Entry(one.name, one.value, fields, one.place, str(error), one.opens))


def _counted(value: object, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        raise ValueError(f"{str(value)[:80]} is no number of {unit} from 1 to {MOST:,}.")


def typed(value: Any, default: Any) -> Any:
    """A text as the kind of value that a setting's default is.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, str):
        return value
    if isinstance(default, bool):
        return _truth(value)
    if value == "auto":  # DeepSpeed's word for what transformers puts there
        return value
    if isinstance(default, (int, float)):
        return _number(value, whole=isinstance(default, int))
    if isinstance(default, list):
        return [value]
    return value if isinstance(default, str) and default != "auto" else _guessed(value)


def _mapping(text: str) -> Any:
    """JSON, as transformers' parser takes a mapping from a command."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{text[:80]} is no mapping.") from None
    if not isinstance(found, dict):
        raise ValueError(f"{text[:80]} is no mapping.")
    return found


def _number(text: str, *, whole: bool) -> int | float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number.")
    return int(number) if whole and number.is_integer() else number


def _truth(text: str) -> bool:
    """As transformers' and accelerate's parsers take it."""
    if text.lower() not in (*TRUE, *FALSE):
        raise ValueError(f"{text} is neither true nor false.")
    return text.lower() in TRUE


TRUE, FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")


def _guessed(text: str) -> Any:
    """A text as what it looks like, where the setting's default is of no kind."""
    plain = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in plain:
        return plain[text.lower()]
    try:
        return _number(text, whole=True)
    except ValueError:
        return text
