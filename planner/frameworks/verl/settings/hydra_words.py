"""Words of a command as hydra reads them: ``key=value``, ``+key=``, ``++key=``, ``~key``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from planner.importer.given import Given, Word

MOST_WORDS = 1000
LONGEST = 8000
"""Characters of a word."""
DEEPEST = 40
"""Brackets in each other, which hydra's parser goes into by recursion."""

_NAMED = re.compile(r"([+~]{0,2}[\w.@/-]+)=(.*)", re.DOTALL)
_OPTION = re.compile(r"(--?[a-z][a-z-]*)(?:=(.*))?", re.DOTALL)
_CONFIG_NAME = ("--config-name", "-cn")
_WITH_VALUE = (*_CONFIG_NAME, "--config-path", "-cp", "--config-dir", "-cd", "--package", "-p")


@dataclass(slots=True)
class Words:
    """Settings of a command, and what is to be said of how they were given."""

    givens: list[Given] = field(default_factory=list)
    config: Given | None = None
    """The configuration that was asked for by name."""
    messages: list[str] = field(default_factory=list)


def parsed(arguments: Iterable[Word]) -> Words:
    """Settings in the order of a command's words.

    A word that hydra refuses stands there as it is, with a sentence; so does a sweep, of which
    verl is given one value at a time.
    """
    found = Words()
    for number, (word, value) in enumerate(_paired(arguments)):
        if number == MOST_WORDS:
            found.messages.append(f"Words after the first {MOST_WORDS:,} were not read.")
            break
        if option := _OPTION.fullmatch(word.text):
            _option(found, option[1], value or word, value.text if value else option[2] or "")
        else:
            found.givens += _override(found, word)
    return found


def _paired(arguments: Iterable[Word]) -> Iterator[tuple[Word, Word | None]]:
    """Words, those of an option with the one that is its value."""
    rest = iter(arguments)
    for word in rest:
        yield word, next(rest, None) if word.text in _WITH_VALUE else None


def _option(found: Words, name: str, word: Word, value: str) -> None:
    given = Given(name, value.removesuffix(".yaml"), word.place, word.opens)
    if name in _CONFIG_NAME:
        found.config = given
    else:
        found.givens.append(given)


def _override(found: Words, word: Word) -> Iterator[Given]:
    named = _NAMED.fullmatch(word.text)
    raw = Given(named[1].lstrip("+") if named else word.text, named[2] if named else None,
                word.place, word.opens)  # fmt: skip
    deepest = max(word.text.count(bracket) for bracket in "[{(")
    if len(word.text) > LONGEST or deepest > DEEPEST:
        found.messages.append(f"{raw.name[:80]} is longer or deeper than what is read.")
        yield replace(raw, name=raw.name[:LONGEST], value=None)
        return
    try:
        name, value = _read(word.text)
    except ValueError as error:
        if word.known:
            found.messages.append(f"{raw.name[:80]}: {error}")
            raw = replace(raw, name=f"{raw.name} (not read)")
        yield raw
        return
    part = word.part(named.start(2)) if named and word.pieces else word
    yield Given(name, value, part.place, part.opens)


@cache
def _parser() -> Any:
    """Hydra's, of which one is made: it registers its functions each time."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create()


def _read(text: str) -> tuple[str, Any]:
    """Name and value of a word.

    Raises:
        ValueError: hydra refuses it, or it is a sweep.
    """
    from hydra.core.override_parser.types import OverrideType
    from hydra.errors import HydraException

    try:
        found = _parser().parse_override(text)
        value = None if found.is_sweep_override() else found.value()
    except (HydraException, RecursionError) as error:
        said = str(error).splitlines()[0][:120]
        raise ValueError(f"hydra does not read {text[:80]!r} ({said}).") from None
    if found.is_sweep_override():
        raise ValueError("a sweep starts several runs. Give one value.")
    name = found.get_key_element().lstrip("+")
    return name, value if found.type is not OverrideType.DEL else None
