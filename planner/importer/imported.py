"""Texts of a run as a plan: each by its form, the framework by what is started, the plan by both.

Nothing raises for what a text holds: what could not be read comes back as a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from planner import registry
from planner.importer import elsewhere, recognition
from planner.importer.given import Given, Launch, Place, UnreadableError, Word, lifted
from planner.importer.json_text import read_json
from planner.importer.memory_errors import Message, read_messages
from planner.importer.python_text import read_python
from planner.importer.reading import Entry, Reading
from planner.importer.recognition import Form
from planner.importer.shell import read_arguments, read_shell
from planner.importer.yaml_text import read_yaml
from planner.plan import Plan
from planner.plan.frameworks import framework_named, frameworks
from planner.plan.link import from_values
from planner.plan.migrations import VERSION
from planner.problem import Problem
from planner.units import read_listed
from planner.values.setting import Setting

Files = Mapping[str, Sequence[Given]]
"""Settings of configurations by the file's name; a Python script's by its calls."""
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

    def words(self, row: Setting, value: Any) -> tuple[str, ...]:
        """A setting as arguments of the command; none where only a file can have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What texts said, and the plan that they make."""

    texts: Mapping[str, str]
    framework: str = ""
    """The folder's name; empty where none has an importer for what is started."""
    trainer: str = ""
    """Whose program it is, in words."""
    launch: Launch | None = None
    files: Files = field(default_factory=dict)
    ends: Mapping[str, Place] = field(default_factory=dict)
    """Where each configuration can have a further setting."""
    reading: Reading = field(default_factory=Reading)
    plan: Plan | None = None
    problems: tuple[Problem, ...] = ()
    """Fields that make no plan together, or as they are."""
    notes: tuple[str, ...] = ()
    """Sentences about texts as a whole: what could not be read, and what to give besides."""
    errors: tuple[Message, ...] = ()
    """Memory that was not there, where a text says so."""

    @property
    def understood(self) -> bool:
        """Whether anything was."""
        return bool(self.reading.understood or self.errors or self.plan)


def imported(texts: Mapping[str, str]) -> Imported:
    """What these texts say, by their names.

    Args:
        texts: at most :data:`MOST_TEXTS`, each at most
            :data:`~planner.importer.recognition.LARGEST_CHARACTERS` long; a name's ending says
            what its text is, and a text without one is taken for what it looks like.
    """
    notes = []
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
    for name, form in forms.items():
        if form in PRINTED:
            errors += read_messages(kept[name])
    launches = _launches(kept, forms, notes)
    documents = [*_documents(kept, forms, launches, notes)]
    files = {name: givens for name, givens, _ in documents}
    found = replace(
        _planned(launches, files, notes),
        texts=kept,
        files=files,
        ends={name: end for name, _, end in documents if end},
        errors=tuple(errors),
    )
    return replace(found, notes=(*notes, *found.notes))


PRINTED = ("printed", "shell")
"""Forms in which a message can stand: also below a script that was pasted with it."""


def _launches(
    texts: Mapping[str, str], forms: Mapping[str, Form], notes: list[str]
) -> list[Launch]:
    """The commands that start a program, with every text beside them as a file."""
    found: list[Launch] = []
    for name, form in forms.items():
        if form not in ("shell", "overrides"):
            continue
        beside = {other: text for other, text in texts.items() if other != name}
        try:
            if form == "overrides":
                found += read_arguments(texts[name], name, OVERRIDDEN)
            else:
                found += read_shell(texts[name], name, beside)
        except UnreadableError as error:
            notes.append(str(error))
    return found


OVERRIDDEN = "python3 -m verl.trainer.main_ppo"
"""What takes overrides that were given without a command."""


def _documents(
    texts: Mapping[str, str],
    forms: Mapping[str, Form],
    launches: Iterable[Launch],
    notes: list[str],
) -> Iterator[tuple[str, Sequence[Given], Place | None]]:
    """Configurations and scripts by name: their settings, and where a further one can stand."""
    written = {name: word for launch in launches for name, word in launch.files.items()}
    for name, word in {**written, **{name: Word(text) for name, text in texts.items()}}.items():
        form = forms.get(name) or recognition.form_of(name, word.text)
        try:
            if form == "python":
                calls = read_python(word.text, name)
                givens = [
                    replace(one, name=f"{call.name}.{one.name}")
                    for call in calls
                    for one in call.givens
                ]
                yield name, givens, calls[-1].end if calls else None
            elif form in ("yaml", "json"):
                read = read_yaml if form == "yaml" else read_json
                document = read(word.text, name)
                document = lifted(document, word) if name in written else document
                yield name, document.givens, document.ends.get("")
        except UnreadableError as error:
            notes.append(str(error))


def _planned(launches: Sequence[Launch], files: Files, notes: list[str]) -> Imported:
    able = [name for name in frameworks() if registry.has("frameworks", name, "importer")]
    for launch in launches:
        for name in able:
            if importer_of(name).takes(launch, files):
                others = [one for one in launches if one is not launch]
                return _of(name, launch, files, others)
    if not launches:
        for name in able:
            launch_alone = importer_of(name).alone(files)
            if launch_alone is not None:
                return _of(name, launch_alone, files, ())
    return _elsewhere(launches, files, able)


def _elsewhere(launches: Sequence[Launch], files: Files, able: Sequence[str]) -> Imported:
    """Of a trainer that has no folder here: its settings as they were read, and no plan."""
    tops = {one.name.partition(".")[0] for givens in files.values() for one in givens}
    trainer = next(
        (found for one in launches if (found := elsewhere.trainer_of(one.program))),
        elsewhere.configured_for(tops),
    )
    reading = Reading(unknown=[*_listed(launches, files)])
    programs = ", ".join(dict.fromkeys(one.program for one in launches if one.program))
    labels = read_listed([framework_named(name).label for name in able])
    if trainer:
        said = (
            f"This is of {trainer}, which is not planned yet: its settings are listed as they "
            f"were read, and no verdict is given. Planned are {labels}."
        )
    elif programs:
        said = (
            f"{programs}: what this trains is not known. Give its source as well, or the script "
            f"of a trainer that is planned: {labels}."
        )
    else:
        return Imported(texts={})
    return Imported(texts={}, trainer=trainer, reading=reading, notes=(said,))


def _listed(launches: Sequence[Launch], files: Files) -> Iterator[Entry]:
    for launch in launches[:1]:
        for word in launch.arguments:
            yield Entry(word.text, None, place=word.place, opens=word.opens)
    for givens in files.values():
        for one in givens:
            yield Entry(one.name, one.value, place=one.place, opens=one.opens)


def _of(name: str, launch: Launch, files: Files, others: Sequence[Launch]) -> Imported:
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
    link = from_values({"v": VERSION, **reading.plan})
    return replace(
        made, plan=link.plan, problems=link.problems, notes=(*made.notes, *link.told)
    )


def importer_of(framework: str) -> Importer:
    """The importer of a framework's folder."""
    return cast(Importer, registry.load("frameworks", framework, "importer"))


def as_json(found: Imported) -> dict[str, Any]:
    """What ``planner import --json`` prints."""
    reading = found.reading
    lists = {
        name: [_entry(one) for one in getattr(reading, name)]
        for name in ("understood", "from_defaults", "no_effect", "open", "unknown", "beyond")
    }
    return {
        "v": VERSION,
        "framework": found.framework or found.trainer,
        "plan": dict(reading.plan),
        "complete": None if found.plan is None else found.plan.model_dump(),
        **lists,
        "problems": [problem.sentence for problem in found.problems],
        "notes": list(found.notes),
        "messages": [_message(one) for one in found.errors],
    }


def _entry(one: Entry) -> dict[str, Any]:
    told: dict[str, Any] = {"name": one.name, "value": one.value, "fields": list(one.fields)}
    if one.place:
        told |= {"file": one.place.file, "line": one.place.line}
    if one.why:
        told["why"] = one.why
    if one.opens:
        told["rests_on"] = [{"name": each.name, "default": each.default} for each in one.opens]
    return told


def _message(one: Message) -> dict[str, Any]:
    return {
        "form": one.form,
        "cause": one.cause,
        "text": one.text,
        "lines": [one.first_line, one.last_line],
        "gpu": one.gpu,
        "bytes": {name: [size.low, size.high] for name, size in one.sizes.items()},
        "said": dict(one.said),
    }
