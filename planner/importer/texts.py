"""The commands and the configurations that texts have, each read by its form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from planner.importer import recognition
from planner.importer.given import Given, Launch, Place, UnreadableError, Word, lifted
from planner.importer.json_text import read_json
from planner.importer.python_text import read_python
from planner.importer.recognition import Form
from planner.importer.shell import read_arguments, read_shell
from planner.importer.yaml_text import read_yaml

OVERRIDDEN = "python3 -m verl.trainer.main_ppo"
"""What takes overrides that were given without a command."""


def launches(
    texts: Mapping[str, str], forms: Mapping[str, Form], notes: list[str]
) -> list[Launch]:
    """The commands that start a program; what could not be read is noted in a sentence."""
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


def documents(
    texts: Mapping[str, str],
    forms: Mapping[str, Form],
    commands: Iterable[Launch],
    notes: list[str],
) -> Iterator[tuple[str, Sequence[Given], Mapping[str, Place]]]:
    """Configurations and scripts by name: their settings, and where a further one can stand."""
    written = {name: word for launch in commands for name, word in launch.files.items()}
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
                yield name, givens, {call.name: call.end for call in calls if call.end}
            elif form in ("yaml", "json"):
                read = read_yaml if form == "yaml" else read_json
                document = read(word.text, name)
                document = lifted(document, word) if name in written else document
                end = document.ends.get("")
                yield name, document.givens, {"": end} if end else {}
        except UnreadableError as error:
            notes.append(str(error))
