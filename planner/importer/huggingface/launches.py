"""What a launch of a trainer over transformers' says: script, configuration, flags, launcher.

Brought together as the trainers' own parsers have it: a script's defaults first, a configuration
before them, a flag before a configuration; of the launcher its file, then its flags.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from planner.importer.flags import flags
from planner.importer.given import Given, Launch, Open
from planner.importer.huggingface.calls import Spoken, of_script
from planner.importer.huggingface.launchers import Started, started
from planner.importer.huggingface.sharing import of_accelerate, shared
from planner.importer.kinds import gathered, held, of_kinds
from planner.importer.models import catalog_id
from planner.importer.reading import Entry, Reading, read
from planner.values.setting import Setting, with_defaults

Files = Mapping[str, Sequence[Given]]
NOTHING: Files = MappingProxyType({})

FEW = 3
"""So many settings of a trainer's make a file or a command its own."""
ENV = "env"
"""The block of a configuration that TRL's parser puts into the environment."""
MODELS = ("model_name_or_path", "reward_model_name_or_path")
CONFIGURATIONS = (".json", ".yaml", ".yml")
"""Endings of a file that ``HfArgumentParser`` reads where it is the only word of a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A trainer's settings, and how they are said."""

    rows: Sequence[Setting]
    nothing: Collection[str]
    """Names that move neither memory nor seconds."""
    spoken: Spoken
    launches: bool = False
    """Whether the command is accelerate's launcher itself, and hands on what it does not know."""
    packaged: Callable[[str], Mapping[str, Any]] = lambda name: {}
    """Of the name of a launcher's configuration that the trainer brings, what that has."""

    @property
    def names(self) -> frozenset[str]:
        """Of rows."""
        return frozenset(row.name for row in self.rows)

    @property
    def known(self) -> frozenset[str]:
        """Of all settings."""
        return self.names | {*self.nothing}


def beside(files: Files, path: str) -> Sequence[Given]:
    """What a file gives, by its path or the last part of it."""
    return files.get(path) or files.get(PurePosixPath(path).name) or ()


def reading_of(
    launch: Launch, files: Files, table: Table, more: Iterable[Given] = ()
) -> tuple[Reading, list[Given]]:
    """Fields of a plan by a table, as far as a launch and its files say them.

    Args:
        launch: of the trainer.
        files: what files give, by the paths that the launch has for them or their last parts.
        table: of the trainer.
        more: settings that stand beside the launch.

    Returns:
        The reading, and all settings that it was made of.
    """
    rows = {row.name: row for row in table.rows if row.fields or row.otherwise}
    absent: list[Entry] = []
    wrong: list[Entry] = []
    told = [*_told(launch, files, table, absent), *more]
    told, sharing = shared(
        map(_model, told), lambda one: beside(files, one.value) or _missing(one, absent)
    )
    defaults = {**_launcher(launch, table).defaults, **sharing}
    taken = with_defaults(map(held, rows.values()), defaults)
    told = _once((*told, *_variables(launch, rows)), rows)
    givens = [*of_kinds(gathered(told, taken), taken, wrong)]
    reading = read(taken, table.nothing, givens)
    reading.beyond += wrong
    reading.open += absent
    return reading, givens


def said(launch: Launch, files: Files, table: Table) -> frozenset[str]:
    """Names of the settings that a launch and its files give."""
    return frozenset(one.name for one in _told(launch, files, table, []))


def configuration(launch: Launch) -> list[Given]:
    """The files of settings that a command names, by their paths."""
    told = [*flags(launch.arguments, ())]
    alone = len(told) == 1 and not told[0].name and str(told[0].value).endswith(CONFIGURATIONS)
    return told if alone else [one for one in told if one.name == "config"]


def ask(reading: Reading, asked: Mapping[str, str]) -> None:
    """Note fields that nothing says and no default is good for, with the setting of each."""
    for field, name in asked.items():
        already = any(field in one.fields and one.asked for one in reading.open)
        if field not in reading.plan and not already:
            reading.open.append(Entry(name or field, None, (field,), opens=(Open(name or field),)))


def _launcher(launch: Launch, table: Table) -> Started:
    return Started() if table.launches else started(launch)


def _model(one: Given) -> Given:
    """A model by its Hub id; one that no row of the catalog is called after is asked for."""
    asked = any(each.default is None for each in one.opens)
    if one.name not in MODELS or not isinstance(one.value, str) or asked:
        return one
    known = catalog_id(one.value)
    opens = one.opens if known else (*one.opens, Open(one.value, place=one.place))
    return replace(one, value=known or one.value, opens=opens)


def _told(
    launch: Launch, files: Files, table: Table, absent: list[Entry]
) -> list[Given]:
    """All that the launch says, in the order in which the last word counts."""
    known, spoken = table.known, table.spoken
    script = of_script(beside(files, launch.program), spoken, known)
    config = configuration(launch)
    short = {name for name in known if "." not in name} | {*script.handed}
    short |= {one.name for one in script.options}
    own = [one for one in flags(launch.arguments, short) if one.name != "config"]
    found: list[Given] = []
    for one in config:
        found += beside(files, str(one.value)) or _missing(one, absent)
    given = {one.name: one for one in (*found, *own)}
    used = script.used - known
    own = [
        replace(one, name=script.handed.get(one.name, one.name) or f"argument {one.value}")
        for one in (*found, *own)
        if (one.name or one not in config) and one.name not in used
    ]
    said = [*script.defaults(spoken, known), *script.under(given)]
    told = [*said, *spoken.settings(own)]
    heads = known | {"accelerate", "deepspeed"}
    by_script = [one for one in told if _head(one) in heads]
    rest = [one for one in told if _head(one) not in heads]
    passed_on = [one for one in rest if table.launches and _head(one) != ENV]
    left = [one for one in rest if not table.launches or _head(one) == ENV]
    file, options_ = _launcher_file([*_launcher(launch, table).options, *passed_on])
    inside: list[Given] = []
    if file is not None:
        packaged = table.packaged(str(file.value)) if file.name == "accelerate_config" else {}
        inside = [Given(name, value) for name, value in packaged.items()]
        inside = inside or [*beside(files, str(file.value))] or _missing(file, absent)
    names = [row.name for row in table.rows]
    return [*of_accelerate(inside, names), *of_accelerate(options_, names), *by_script, *left]


def _head(one: Given) -> str:
    return one.name.partition(".")[0]


def _launcher_file(options: Iterable[Given]) -> tuple[Given | None, list[Given]]:
    file, others = None, []
    for one in options:
        if one.name in ("config_file", "accelerate_config"):
            file = one
        else:
            others.append(one)
    return file, others


def _missing(one: Given, absent: list[Entry]) -> list[Given]:
    """Nothing, of a file that is named and not here: whoever gave the others is asked for it."""
    opens = (*one.opens, Open(str(one.value), place=one.place))
    absent.append(Entry(one.name or str(one.value), one.value, place=one.place, opens=opens))
    return []


def _variables(launch: Launch, rows: Mapping[str, Setting]) -> Iterator[Given]:
    for name, word in launch.environment.items():
        setting = f"environment.{name}"
        if setting in rows or name.startswith("ACCELERATE_"):
            yield Given(setting, word.text, word.place, word.opens)


def _once(givens: Iterable[Given], rows: Mapping[str, Setting]) -> list[Given]:
    """Of what has no row the last word alone: nothing hangs on the others."""
    told = [*givens]
    last = {one.name: at for at, one in enumerate(told)}
    return [one for at, one in enumerate(told) if one.name in rows or last[one.name] == at]
