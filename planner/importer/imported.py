"""Texts of a run as a plan: each by its form, the framework by what is started, the plan by both.

Nothing raises for what a text holds: what could not be read comes back as a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from planner import registry
from planner.importer import elsewhere, recognition
from planner.importer.given import Given, Launch, UnreadableError, Word
from planner.importer.memory_errors import Message, read_messages
from planner.importer.reading import Entry, Reading
from planner.importer.recognition import Form
from planner.plan import Plan
from planner.plan.frameworks import framework_named, frameworks
from planner.plan.link import from_values
from planner.plan.migrations import VERSION
from planner.problem import Problem
from planner.values.setting import Setting

MOST_TEXTS = 20
"""A run has a script, a few configurations and a log."""


class Importer(Protocol):
    """What an ``importer.py`` in a framework's folder offers."""

    def takes(self, launch: Launch) -> bool:
        """Whether a command is of this framework, whatever it trains."""

    def imported(self, launch: Launch) -> Reading:
        """What a command says of a plan; files that it names stand in ``launch.files``."""

    def rows(self) -> Sequence[Setting]:
        """The framework's table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What texts said, and the plan that they make."""

    texts: Mapping[str, str]
    framework: str = ""
    """The folder's name; empty where none has an importer for what is started."""
    trainer: str = ""
    """Whose program it is, in words."""
    launch: Launch | None = None
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
    errors = tuple(
        message
        for name, form in forms.items()
        if form in ("printed", "shell")
        for message in read_messages(kept[name])
    )
    launches = _launches(kept, forms, notes)
    found = _planned(launches, notes)
    return replace(found, texts=kept, notes=(*notes, *found.notes), errors=errors)


def _launches(
    texts: Mapping[str, str], forms: Mapping[str, Form], notes: list[str]
) -> list[Launch]:
    """The commands that start a program, with every text beside them as a file."""
    from planner.importer.shell import read_shell

    found: list[Launch] = []
    files = {name: Word(text) for name, text in texts.items()}
    for name, form in forms.items():
        if form not in ("shell", "overrides"):
            continue
        beside = {other: text for other, text in texts.items() if other != name}
        try:
            launches = read_shell(texts[name], name, beside)
        except UnreadableError as error:
            notes.append(str(error))
            continue
        found += [replace(one, files={**files, **one.files}) for one in launches]
    if not found and set(forms.values()) - {"printed", "shell"}:
        # A configuration alone is as good as a command that names it.
        found.append(Launch(program="", arguments=(), files=files))
    return found


def _planned(launches: Sequence[Launch], notes: list[str]) -> Imported:
    able = [name for name in frameworks() if registry.has("frameworks", name, "importer")]
    for launch in launches:
        for name in able:
            importer = importer_of(name)
            if importer.takes(launch):
                if len(launches) > 1:
                    notes.append(
                        f"{len(launches)} programs are started: {launch.program} is planned."
                    )
                return _of(importer, name, launch)
    for launch in launches:
        if trainer := elsewhere.trainer_of(launch.program):
            labels = " and ".join(framework_named(name).label for name in able)
            return Imported(
                texts={},
                trainer=trainer,
                launch=launch,
                reading=_listed(launch),
                notes=(
                    f"This starts {trainer}, which is not planned here yet: its settings are "
                    f"listed as they were read. {labels} are planned.",
                ),
            )
    programs = ", ".join(dict.fromkeys(launch.program for launch in launches if launch.program))
    if programs:
        return Imported(
            texts={},
            reading=_listed(launches[0]),
            launch=launches[0],
            notes=(f"{programs}: nobody knows here what that trains. Give its source as well.",),
        )
    return Imported(texts={})


def _of(importer: Importer, name: str, launch: Launch) -> Imported:
    framework = framework_named(name)
    trainer = f"{framework.label} {framework.versions[0]}"
    try:
        reading = importer.imported(launch)
    except UnreadableError as error:
        return Imported(texts={}, framework=name, trainer=trainer, notes=(str(error),))
    if not reading.plan:
        notes = tuple(reading.messages)
        return Imported(
            texts={}, framework=name, trainer=trainer, launch=launch, reading=reading, notes=notes
        )
    made = from_values({"v": VERSION, **reading.plan})
    return Imported(
        texts={},
        framework=name,
        trainer=trainer,
        launch=launch,
        reading=reading,
        plan=made.plan,
        problems=made.problems,
        notes=(*reading.messages, *made.notes),
    )


def _listed(launch: Launch) -> Reading:
    """The words of a command as settings that nobody reads."""
    words = [word for word in launch.arguments if word.text]
    return Reading(unknown=[Entry(word.text, "", place=word.place) for word in words])


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
