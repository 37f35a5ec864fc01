"""Words of a command as settings: ``--name value``, ``--name=value``, ``--name``, ``--no-name``.

As argparse takes them apart: dashes inside of a name are underscores, a name may be cut short where
one alone begins so, and an option takes the words up to the next one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from planner.importer.given import Given, Place, Word

OPTION = re.compile(r"--?[A-Za-z]")


def flags(words: Iterable[Word], known: Collection[str]) -> Iterator[Given]:
    """A setting an option, in the order of the words; what belongs to none has no name.

    Args:
        words: of one command.
        known: names that may be cut short, and that ``--no-`` may stand before.
    """
    given: Word | None = None
    values: list[Word] = []
    for word in words:
        if OPTION.match(word.text) and not any(character.isspace() for character in word.text):
            yield from _taken(given, values, known)
            given, values = word, []
        else:
            values.append(word)
    yield from _taken(given, values, known)


def _taken(option: Word | None, values: list[Word], known: Collection[str]) -> Iterator[Given]:
    if option is None:
        yield from (Given("", word.text, word.place, word.opens) for word in values)
        return
    written, equals, _ = option.text.partition("=")
    if equals:
        values = [_after(option, len(written) + 1), *values]
    name = written.lstrip("-").replace("-", "_")
    if not values and name.startswith("no_") and name not in known:
        yield Given(_whole(name.removeprefix("no_"), known), "False", option.place, option.opens)
        return
    name = _whole(name, known)
    if not values:
        yield Given(name, "True", option.place, option.opens)
    elif len(values) == 1:
        yield Given(name, values[0].text, values[0].place, values[0].opens)
    else:
        opens = tuple(one for word in values for one in word.opens)
        yield Given(name, [word.text for word in values], _span(values), opens)


def _whole(name: str, known: Collection[str]) -> str:
    longer = [one for one in known if one.startswith(name)]
    return longer[0] if name not in known and len(longer) == 1 else name


def _after(word: Word, start: int) -> Word:
    """What follows a word's equals sign, with the place of these characters alone."""
    place = word.place
    if place is not None and place.end - place.start == len(word.text):
        place = replace(place, start=place.start + start)
    return Word(word.text[start:], place, word.opens)


def _span(words: list[Word]) -> Place | None:
    """From the first word to the last; None where one of them is written elsewhere."""
    places = [word.place for word in words if word.place]
    if len(places) < len(words) or len({place.file for place in places}) > 1:
        return None
    first, last = places[0], places[-1]
    return replace(first, end=last.end) if first.start < last.start else None
