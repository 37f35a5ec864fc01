"""Texts of a run as a plan: each by its form, the framework by what is started, the plan by both.

Nothing raises for what a text holds: what could not be read comes back as a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, cast

from planner import registry
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.importer import contents, elsewhere, recognition
from planner.importer.given import Further, Launch, Place, UnreadableError
from planner.importer.logs.measured import Measured
from planner.importer.logs.reading import read_logs
from planner.importer.memory_errors import Message, read_messages
from planner.importer.models import config_among
from planner.importer.reading import Entry, Files, Reading
from planner.plan import FIELDS, Plan
from planner.plan.fields import MOVES, NOT_KNOWN
from planner.plan.frameworks import framework_named, frameworks
from planner.plan.link import from_values
from planner.plan.migrations import VERSION
from planner.problem import Problem
from planner.totals.limits import incomplete
from planner.trial.ask.result import read_result
from planner.units import read_listed
from planner.values.setting import Setting

MOST_TEXTS = 20
"""A run has a script, a few configurations and a log."""


class Importer(Protocol):
    """What an ``importer.py`` in a framework's folder offers."""

    def takes(self, launch: Launch, files: Files) -> bool:
        """Whether a command is of this framework, whatever it trains."""

    def alone(self, files: Files) -> Launch | None:
        """The command that takes a configuration which is given by itself; None: not of this."""

    def imported(self, launch: Launch, files: Files, servers: Iterable[Launch]) -> Reading:
        """What a command says of a plan; ``servers`` are what else is started."""

    def rows(self, launch: Launch, files: Files) -> Sequence[Setting]:
        """The framework's table."""

    def further(self, row: Setting, value: Any, launch: Launch, files: Files) -> Further:
        """How a run is given a setting that nothing gives it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What texts said, and the plan that they make."""

    texts: Mapping[str, str]
    answers: Mapping[str, Any] = field(default_factory=dict)
    """Fields that a person said besides."""
    framework: str = ""
    """The folder's name; empty where none has an importer for what is started."""
    trainer: str = ""
    """Whose program it is, in words."""
    launch: Launch | None = None
    files: Files = field(default_factory=dict)
    ends: Mapping[str, Mapping[str, Place]] = field(default_factory=dict)
    """Where each configuration can have a further setting, by its mappings' names."""
    reading: Reading = field(default_factory=Reading)
    plan: Plan | None = None
    problems: tuple[Problem, ...] = ()
    """Fields that make no plan together, or as they are."""
    left_out: tuple[tuple[str, str, str], ...] = ()
    """What moves memory, or may, and is not in the plan: a setting or field, its value, and what
    it does. A name that the framework does not know may be anything."""
    asks: tuple[str, ...] = ()
    """Fields that no text says and nobody answered; without a model there is no plan."""
    notes: tuple[str, ...] = ()
    """Sentences about texts as a whole: what could not be read, and what to give besides."""
    errors: tuple[Message, ...] = ()
    """Memory that was not there, where a text says so."""
    logs: tuple[Measured, ...] = ()
    """What a run measured, where a text says so."""

    @property
    def understood(self) -> bool:
        """Whether anything was."""
        return bool(self.reading.understood or self.errors or self.logs or self.plan)


def imported(
    texts: Mapping[str, str], answers: Mapping[str, Any] = MappingProxyType({})
) -> Imported:
    """What these texts say, by their names.

    Args:
        texts: at most :data:`MOST_TEXTS`, each at most
            :data:`~planner.importer.recognition.LARGEST_CHARACTERS` long; a name's ending says
            what its text is, and a text without one is taken for what it looks like.
        answers: fields that a person said besides, before what the texts say.
    """
    notes: list[str] = []
    if len(texts) > MOST_TEXTS:
        notes.append(f"{len(texts)} texts are more than {MOST_TEXTS}: give those of one run.")
    kept = {}
    for name, text in list(texts.items())[:MOST_TEXTS]:
        if len(text) > recognition.LARGEST_CHARACTERS:
            notes.append(
                f"{name} has {len(text):,} characters: the last "
                f"{recognition.LARGEST_CHARACTERS:,} are read."
            )
        kept[name] = text[-recognition.LARGEST_CHARACTERS :]
    forms = {name: recognition.form_of(name, text) for name, text in kept.items()}
    errors: list[Message] = []
    logs: list[Measured] = []
    for name, form in forms.items():
        if form in PRINTED:
            errors += read_messages(kept[name])
        if form in LOGGED:
            logs += read_logs(kept[name])
    started = contents.launches(kept, forms, notes)
    documents = [*contents.documents(kept, forms, started, notes)]
    files = {name: givens for name, givens, _ in documents}
    config = {} if "model" in answers else config_among(kept, notes)
    found = replace(
        _planned(started, files, {**config, **answers}),
        texts=kept,
        answers=answers,
        files=files,
        ends={name: end for name, _, end in documents},
        errors=tuple(errors),
        logs=tuple(logs),
    )
    tried = next((read_result(one.record).planned() for one in logs if one.record), None)
    if found.plan is None and not started:
        found = replace(found, plan=tried)
    return replace(found, notes=(*notes, *found.notes))


PRINTED = ("printed", "shell")
"""Forms in which a message can stand: also below a script that was pasted with it."""
LOGGED = ("printed", "json")
"""Forms of what a run measured: its console, and a trainer's state."""


def _planned(
    launches: Sequence[Launch], files: Files, answers: Mapping[str, Any]
) -> Imported:
    able = [name for name in frameworks() if registry.has("frameworks", name, "importer")]
    tops = _tops(files)
    if elsewhere.written_with(tops) or (not launches and elsewhere.configured_for(tops)):
        return _elsewhere(launches, files, able)
    first: Imported | None = None
    tried: set[str] = set()
    for launch in launches:
        name = next((name for name in able if importer_of(name).takes(launch, files)), None)
        if name is None or (launch.program in tried and first):
            continue
        tried.add(launch.program)
        others = [one for one in launches if one is not launch]
        found = _of(name, launch, files, others, answers)
        if found.reading.plan:
            return found
        first = first or found  # an engine's server, or a program that trains nothing planned
    if first:
        return first
    if not launches:
        for name in able:
            launch_alone = importer_of(name).alone(files)
            if launch_alone is not None:
                return _of(name, launch_alone, files, (), answers)
    return _elsewhere(launches, files, able)


def _elsewhere(launches: Sequence[Launch], files: Files, able: Sequence[str]) -> Imported:
    """Of a trainer that has no folder here: its settings as they were read, and no plan."""
    tops = _tops(files)
    started = (elsewhere.trainer_of(one.program) for one in launches)
    spoken = (elsewhere.spoken_to([word.text for word in one.arguments]) for one in launches)
    told = (elsewhere.written_with(tops), *started, *spoken, elsewhere.configured_for(tops))
    trainer = next(filter(None, told), "")
    reading = Reading(unknown=[*_listed(launches, files)])
    programs = ", ".join(dict.fromkeys(one.program for one in launches if one.program))
    labels = read_listed([framework_named(name).label for name in able])
    if trainer:
        said = (
            f"This is of {trainer}, which is not planned yet: its settings are listed as they "
            f"were read, and no verdict is given. Planned are {labels}."
        )
    elif programs and (trainers := sorted(_trainers(files))):
        said = (
            f"{programs}: {read_listed(trainers)} is not planned yet, so its settings are listed "
            f"as they were read, and no verdict is given. Planned are {labels}."
        )
    elif programs:
        said = (
            f"{programs}: what this trains is not known. Give its source as well, or the script "
            f"of a trainer that is planned: {labels}."
        )
    elif owner := elsewhere.beside_of(tops):
        said = f"This is {owner}'s part of a run. Give the script that starts it as well."
    else:
        return Imported(texts={})
    return Imported(texts={}, trainer=trainer, reading=reading, notes=(said,))


def _trainers(files: Files) -> set[str]:
    """Classes of trainers that scripts call."""
    parts = (part for givens in files.values() for one in givens for part in one.name.split("."))
    return {part for part in parts if part.endswith("Trainer") and part != "Trainer"}


def _tops(files: Files) -> set[str]:
    return {one.name.partition(".")[0] for givens in files.values() for one in givens}


def _listed(launches: Sequence[Launch], files: Files) -> Iterator[Entry]:
    for launch in launches[:1]:
        for word in launch.arguments:
            yield Entry(word.text, None, place=word.place, opens=word.opens)
    for givens in files.values():
        for one in givens:
            yield Entry(one.name, one.value, place=one.place, opens=one.opens)


def _of(
    name: str,
    launch: Launch,
    files: Files,
    others: Sequence[Launch],
    answers: Mapping[str, Any],
) -> Imported:
    """The plan of a command of a framework that has an importer."""
    framework = framework_named(name)
    made = Imported(
        texts={},
        framework=name,
        trainer=f"{framework.label} {framework.versions[0]}",
        launch=launch,
    )
    try:
        reading = importer_of(name).imported(launch, files, others)
    except UnreadableError as error:
        return replace(made, notes=(str(error),))
    made = replace(made, reading=reading, notes=tuple(reading.messages))
    if not reading.plan:
        return made
    asked = (each for one in reading.open if one.asked for each in one.fields)
    needed = [*asked, *(() if "method" in reading.plan else ("method",))]
    said = {*answers, *(("model",) if answers.get("config") else ())}
    asks = tuple(dict.fromkeys(each for each in needed if each in FIELDS and each not in said))
    beyond = tuple(
        (one.name, _text(one.value), one.why) for one in reading.beyond if one.moves != "seconds"
    )
    nobody = f"{made.trainer} knows no such setting, so {NOT_KNOWN}."
    unknown = ((one.name, _text(one.value), nobody) for one in reading.unknown if not one.why)
    left_out = (*beyond, *unknown)
    made = replace(made, asks=asks, left_out=left_out)
    if not DECISIVE.isdisjoint(asks):
        return made
    link = from_values({**reading.plan, **answers}, unnamed=VERSION)
    return replace(
        made,
        plan=link.plan,
        problems=link.problems,
        left_out=(*left_out, *((field, text, "") for field, text in link.left_out)),
        notes=(*made.notes, *link.told),
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)


DECISIVE = frozenset({"model", "method"})
"""Fields that nothing is planned without; others are planned by a default, which is said. A method
is missing where the framework's is none that is planned."""


def answered(found: Imported) -> Footprint:
    """Estimate the imported plan; the verdict is incomplete if a setting was left out.

    Raises:
        ValueError: it has no plan, or a formula refuses it.
    """
    if found.plan is None:
        raise ValueError("plan: these texts make none; see what they leave open.")
    footprint = estimate(found.plan)
    if not found.left_out:
        return footprint
    named = [f"“{name}” {text[:40]}".strip() for name, text, _ in found.left_out]
    moves = [
        (why or MOVES.get(name, NOT_KNOWN)).rstrip(".") for name, _, why in found.left_out
    ]
    return incomplete(footprint, named, moves)


def importer_of(framework: str) -> Importer:
    """The importer of a framework's folder."""
    return cast(Importer, registry.load("frameworks", framework, "importer"))
