"""Settings that were given, as fields of a plan, and an account of what became of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from planner.importer.given import Given, Open, Place
from planner.values.setting import Moves, Setting

Files = Mapping[str, Sequence[Given]]
"""Settings of configurations by the file's name; a Python script's by its calls."""
NOTHING: Files = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one setting."""

    name: str
    value: Any
    """As it was given; the framework's default where nobody gave one."""
    fields: tuple[str, ...] = ()
    """The plan's fields that it carries."""
    place: Place | None = None
    why: str = ""
    """Of what no field has: which way it moves memory or seconds, or why the value is refused. Of
    what is asked: what the plan has until somebody says it. Of an unknown one: whose it is."""
    opens: tuple[Open, ...] = ()
    """What its value rests on that the text does not say."""
    moves: Moves = "both"
    """What it decides."""
    copies: tuple[Place, ...] = ()
    """Where a file beside says the same."""
    given: bool = True
    """Whether a text says it, or the framework's default does."""

    @property
    def asked(self) -> bool:
        """Whether somebody has to say it: the text itself has no value for it."""
        return asked(self.opens)


@dataclass(slots=True)
class Reading:
    """A plan's fields as far as settings say them, and every setting in one of the lists.

    A value that rests on something outside the text stands in ``open``; where the text has a
    default for it, it stands in the list of what became of that default as well.
    """

    plan: dict[str, Any] = field(default_factory=dict)
    understood: list[Entry] = field(default_factory=list)
    from_defaults: list[Entry] = field(default_factory=list)
    no_effect: list[Entry] = field(default_factory=list)
    open: list[Entry] = field(default_factory=list)
    """Where one is ``asked``, the plan holds what the framework's default makes, if anything."""
    unknown: list[Entry] = field(default_factory=list)
    beyond: list[Entry] = field(default_factory=list)
    """What moves memory or seconds and no field has, or no field at that value."""
    messages: list[str] = field(default_factory=list)
    """Sentences: settings that contradict each other, and which one stands."""


def read(
    settings: Iterable[Setting], no_effect: Collection[str], givens: Iterable[Given]
) -> Reading:
    """Fields from settings: what is given goes before defaults, and a later one before an earlier.

    Args:
        settings: A framework's table. Of two rows that disagree the given one stands, then the
            first; a row's ``read`` raises ValueError, with a sentence, of a value that no field
            has.
        no_effect: Names that move neither memory nor seconds, with ``*`` for any characters; a
            name stands for what nests below it as well.
        givens: In the order in which the framework takes them.
    """
    reading = Reading()
    taken: dict[str, Given] = {}
    for one in givens:
        before = taken.pop(one.name, None)
        if before and before.value != one.value and _together(before, one):
            reading.messages.append(f"{one.name} is given more than once: the last one counts.")
        taken[one.name] = one
    rows = {row.name: row for row in settings}
    said = {name: one.value for name, one in taken.items() if not asked(one.opens)}
    resolved = {**{name: row.default for name, row in rows.items()}, **said}
    stated: list[tuple[bool, str, Mapping[str, Any]]] = []
    for name, row in rows.items():
        given = taken.get(name)
        entry = Entry(name, row.default, row.fields, moves=row.moves, given=given is not None)
        if given is not None:
            said_of = {"value": given.value, "place": given.place, "opens": given.opens}
            entry = replace(entry, **said_of, copies=given.copies)
        stated.append((given is None, name, _place(reading, row, entry, given, resolved)))
    _merge(reading, stated)
    nothing = pattern(no_effect)
    for one in (one for name, one in taken.items() if name not in rows):
        into = reading.no_effect if nothing.fullmatch(one.name) else reading.unknown
        entry = Entry(one.name, one.value, place=one.place, opens=one.opens)
        into.append(entry)
        if one.opens and into is reading.unknown:
            reading.open.append(entry)
    return reading


def listed(program: str, givens: Iterable[Given]) -> Reading:
    """Of a program that is not planned: no field, and all of its settings as unknown."""
    reading = read((), (), givens)
    said = f"{program} is not planned: its settings are listed as they stand."
    reading.messages.append(said)
    return reading


def _together(before: Given, one: Given) -> bool:
    """Whether both stand in one text; a command that overrides a file does so on purpose."""
    return before.place is None or one.place is None or before.place.file == one.place.file


def asked(opens: Iterable[Open]) -> bool:
    """Whether somebody has to say a value: the text itself has none for what it rests on."""
    return any(one.default is None for one in opens)


def _place(
    reading: Reading,
    row: Setting,
    entry: Entry,
    given: Given | None,
    resolved: Mapping[str, Any],
) -> Mapping[str, Any]:
    """What a row says of fields; notes the entry in the lists where it belongs."""
    refusal = "" if row.fields or resolved[row.name] == row.default else row.otherwise
    found: Mapping[str, Any] = {}
    try:
        found = row.read(resolved[row.name], resolved) if row.read else {}
    except ValueError as error:
        refusal = str(error)
    except (TypeError, KeyError, AttributeError, ArithmeticError):  # a list for a number
        refusal = f"{str(resolved[row.name])[:80]} is no value of {row.name}."
    if entry.opens:
        until = f"{row.default}, the framework's default, until somebody says it."
        reading.open.append(replace(entry, why=until if entry.asked and found else ""))
    if refusal and not entry.asked:
        reading.beyond.append(replace(entry, why=refusal))
    elif given is not None and not entry.asked:
        reading.understood.append(entry)
    elif given is None and found:
        reading.from_defaults.append(entry)
    return found


def _merge(reading: Reading, stated: Iterable[tuple[bool, str, Mapping[str, Any]]]) -> None:
    """Fields of all rows; where two rows disagree a sentence says so."""
    first: dict[str, tuple[bool, str]] = {}
    for of_default, name, found in sorted(stated, key=lambda one: one[0]):
        for key, value in found.items():
            if key not in first:
                first[key] = (of_default, name)
                reading.plan[key] = value
            elif reading.plan[key] != value:
                reading.messages.append(
                    f"{key} is {reading.plan[key]} by {_spoken(*first[key])} and {value} by "
                    f"{_spoken(of_default, name)}: the plan has one, {reading.plan[key]}."
                )


def _spoken(of_default: bool, name: str) -> str:
    return f"the default of {name}" if of_default else name


def pattern(names: Collection[str]) -> re.Pattern[str]:
    """What names of settings match, as :func:`read` has it."""
    return re.compile("|".join(_alternatives(names)) or r"(?!)")


def _alternatives(names: Collection[str]) -> Iterator[str]:
    for name in names:
        yield ".*".join(re.escape(part) for part in name.split("*")) + r"(?:\..*)?"
