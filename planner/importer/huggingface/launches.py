"""What a launch of a trainer over transformers' says: script, configuration, flags, launcher.

Brought together as the trainers' own parsers have it: a script's defaults first, a configuration
before them, a flag before a configuration; of the launcher its file, then its flags.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from planner.importer.flags import flags
from planner.importer.given import Given, Launch, Open
from planner.importer.huggingface.calls import (
    MODEL,
    Spoken,
    by_command,
    declared_in,
    of_script,
    options_of,
    said_anew,
)
from planner.importer.huggingface.homes import LAUNCHERS
from planner.importer.huggingface.launchers import Started, started
from planner.importer.huggingface.sharing import of_accelerate, shared
from planner.importer.kinds import gathered, of_kinds
from planner.importer.models import cataloged
from planner.importer.reading import Entry, Files, Reading, asked, read
from planner.values.setting import Setting, with_defaults

FEW = 3
"""So many settings of a trainer's make a file or a command its own."""
ASKED = {"model": MODEL, "gpu": "", "gpus": "accelerate.num_processes", "steps": "max_steps"}
"""Fields that have no right default in any trainer, each with its setting."""
ENV = "env"
"""The block of a configuration that TRL's parser puts into the environment."""
SPREAD = "**"
"""What the Python reader calls a mapping that it cannot look into."""
OWN = "An option of the script's own, which it hands on to no setting."
MODELS = (MODEL, "reward_model_name_or_path")
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
    def read(self) -> dict[str, Setting]:
        """Rows by name; what only an export says is no setting of a reader."""
        return {
            row.name: row
            for row in self.rows
            if row.fields or (row.otherwise and row.name not in self.nothing)
        }


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
    rows = table.read
    absent: list[Entry] = []
    wrong: list[Entry] = []
    told = _told(launch, files, table, absent)
    told, sharing = shared(
        map(_model, told), lambda one: beside(files, one.value) or _missing(one, absent)
    )
    taken = with_defaults(rows.values(), {**_launcher(launch, table).defaults, **sharing})
    more = [*more]
    said = {one.name for one in more}
    variables = (one for one in _variables(launch, rows) if one.name not in said)
    told = _once((*told, *variables, *more), rows)
    givens = [*of_kinds(gathered(told, taken), taken, wrong)]
    reading = read(taken, table.nothing, givens)
    reading.beyond += wrong
    reading.open += absent
    own = {f"--{name}" for name in declared_in(beside(files, launch.program))[1]}
    reading.unknown = [
        replace(one, why=OWN) if one.name in own else one for one in reading.unknown
    ]
    return reading, givens


def said(launch: Launch, files: Files, table: Table) -> frozenset[str]:
    """Names of the settings that a launch and its files give."""
    return frozenset(one.name for one in _told(launch, files, table, []))


def configuration(launch: Launch) -> list[Given]:
    """The files of settings that a command names, by their paths."""
    told = [*flags(launch.arguments, ())]
    alone = len(told) == 1 and not told[0].name and str(told[0].value).endswith(CONFIGURATIONS)
    return told if alone else [one for one in told if one.name == "config"]


def speaks(launch: Launch, files: Files, names: Iterable[str]) -> set[str]:
    """What a command and its configurations say, by name, where they are a trainer's own.

    Args:
        launch: of a program whose name alone tells nothing.
        files: what files give.
        names: of the trainer's settings; empty comes of a command that says too few of them.
    """
    told = {one.name.partition(".")[0] for one in flags(launch.arguments, ())}
    for one in configuration(launch):
        told |= {each.name.partition(".")[0] for each in beside(files, str(one.value))}
    return told if len(told & {*names}) >= FEW else set()


def ask(reading: Reading, **more: str) -> None:
    """Note fields that nothing says and no default is good for, with the setting of each."""
    needed = {**ASKED, **more}
    said = {*reading.plan, *(field for one in reading.open if one.asked for field in one.fields)}
    for field, name in needed.items():
        if field not in said:
            reading.open.append(Entry(name or field, None, (field,), opens=(Open(name or field),)))


def judge(reading: Reading, by_trainer: Mapping[str, str]) -> None:
    """Move what a trainer is given beside its settings and moves something out of no effect.

    Args:
        reading: of a script.
        by_trainer: arguments of the trainer (``trainer.optimizers``), and which way each moves
            memory or seconds.
    """
    for one in [*reading.no_effect, *reading.unknown]:
        why = by_trainer.get(one.name) if one.value is not None else ""
        if one.name == SPREAD:
            why = "What it holds is not read: defaults stand in its place."
        if why:
            for each in (reading.no_effect, reading.unknown):
                each[:] = [other for other in each if other is not one]
            reading.beyond.append(replace(one, why=why))


def started_alone(reading: Reading, launch: Launch) -> None:
    """Of a script without its command: how many processes start it nobody said."""
    gpus = reading.plan.get("gpus")
    if not launch.arguments and not launch.launchers and gpus is not None:
        rests = ("gpus", "sharding", "prompts_per_step", "prompts_per_update")
        opens = (Open("the command that starts it", str(gpus)),)
        reading.open.append(Entry("accelerate.num_processes", gpus, rests, opens=opens))


def _launcher(launch: Launch, table: Table) -> Started:
    return Started() if table.launches else started(launch)


def _model(one: Given) -> Given:
    named = one.name in MODELS and isinstance(one.value, str)
    return cataloged(one) if named and not asked(one.opens) else one


def _told(
    launch: Launch, files: Files, table: Table, absent: list[Entry]
) -> list[Given]:
    """All settings of a launch, in the order in which the last word counts."""
    known = {*table.read, *table.nothing}
    script, declared = declared_in(beside(files, launch.program))
    taken = options_of(script) - (known - declared)
    own = [*flags(launch.arguments, {*taken, *(name for name in known if "." not in name)})]
    config = configuration(launch)
    found: list[Given] = []
    for one in config:
        found += beside(files, str(one.value)) or _missing(one, absent)
    own = [
        one if one.name else replace(one, name=f"argument {one.value}")
        for one in own
        if one.name != "config" and one not in config
    ]
    script = [one for one in script if not said_anew(one, known)]
    by_script = [*by_command(of_script(script, table.spoken), [*found, *own])]
    # What a script takes for itself is no setting, whatever it is called.
    given = [
        replace(one, name=f"--{one.name}") if one.name in declared else one
        for one in (*found, *own)
        if one.name not in taken
    ]
    told = [*by_script, *table.spoken.settings(given)]
    heads = known | {"accelerate", "deepspeed"}
    settings = [one for one in told if _head(one) in heads]
    rest = [one for one in told if _head(one) not in heads]
    passed_on = [one for one in rest if table.launches and _head(one) != ENV]
    left = [one for one in rest if not table.launches or _head(one) == ENV]
    launcher = [*_launcher(launch, table).options, *passed_on]
    options = [one for one in launcher if one.name not in LAUNCHERS]
    inside: list[Given] = []
    for file in [one for one in launcher if one.name in LAUNCHERS][-1:]:
        packaged = table.packaged(str(file.value)) if file.name == "accelerate_config" else {}
        inside += [Given(name, value) for name, value in packaged.items()] or (
            beside(files, str(file.value)) or _missing(file, absent)
        )
    names = table.read
    return [*of_accelerate(inside, names), *of_accelerate(options, names), *settings, *left]


def _head(one: Given) -> str:
    return one.name.partition(".")[0]


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
    """Of a setting without a row only the last: nothing depends on the others."""
    told = [*givens]
    last = {one.name: at for at, one in enumerate(told)}
    return [one for at, one in enumerate(told) if one.name in rows or last[one.name] == at]
