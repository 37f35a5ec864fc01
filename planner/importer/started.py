"""A command taken out of its launchers, one after the other: the program that it starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from planner.importer.given import Word
from planner.importer.launchers import (
    COMMANDS,
    LAUNCHERS,
    MODULES,
    PYTHON,
    PYTHON_VALUED,
    RAN_ANYWAY,
    SHELLS,
)


@dataclass(frozen=True, slots=True)
class Started:
    """What a command starts, once its launchers are off."""

    program: str | None
    """None: a shell, which reads ``arguments`` as one is started with."""
    arguments: tuple[Word, ...]
    launchers: tuple[tuple[str, tuple[Word, ...]], ...]
    environment: Mapping[str, Word]


def started(words: tuple[Word, ...], commands: Iterable[str] = ()) -> Started | None:
    """The program that these words start; None for whatever trains nothing.

    Args:
        words: the command.
        commands: names of further programs that are started by ``name subcommand``.
    """
    known = COMMANDS | set(commands)
    launchers: list[tuple[str, tuple[Word, ...]]] = []
    environment: dict[str, Word] = {}
    while words:
        found = _launcher(words)
        if found is None:
            break
        name, options, words, python = found
        shown = options
        if name == "env":
            shown = tuple(one for one in options if not _assigned(one))
            environment |= {
                variable: one.part(len(variable) + 1)
                for one in options
                if (variable := _assigned(one))
            }
        if LAUNCHERS[tuple(name.split())].counts:
            launchers.append((name, shown))
        if python and words:
            return Started(words[0].text, words[1:], tuple(launchers), environment)
    if not words:
        return None
    head, behind = PurePosixPath(words[0].text).name, (tuple(launchers), environment)
    if PYTHON.search(head):
        return _python(words[1:], *behind, commands)
    if launchers and launchers[-1][0] == "sbatch":
        return Started(None, words, *behind)
    if head in SHELLS:
        return Started(None, words[1:], *behind)
    if head.endswith(".py"):
        return Started(words[0].text, words[1:], *behind)
    if head in known and len(words) > 1:
        program = f"{head} {words[1].text}"
        return Started(program, words[2:], *behind)
    if launchers and head not in RAN_ANYWAY and not head.startswith("-"):
        return Started(words[0].text, words[1:], *behind)
    return None


def _assigned(word: Word) -> str:
    found = re.match(r"([A-Za-z_]\w*)=", word.text)
    return found[1] if found else ""


def _launcher(
    words: tuple[Word, ...],
) -> tuple[str, tuple[Word, ...], tuple[Word, ...], bool] | None:
    """The launcher's name, its own words, what follows, and whether that is a Python script."""
    texts = (PurePosixPath(words[0].text).name, *(word.text for word in words[1:3]))
    name = next((name for name in LAUNCHERS if texts[: len(name)] == name), None)
    if name is None:
        return None
    launcher, at = LAUNCHERS[name], len(name)
    first, python = at, launcher.runs_python
    while at < len(words):
        text = words[at].text
        if name == ("env",) and _assigned(words[at]):
            at += 1
        elif not text.startswith("-") or text == "-" or text == "--":
            break
        else:
            if text in ("--no-python", "--no_python"):
                python = False
            if name == ("uv", "run") and text in ("-m", "--module"):
                break
            at += 1 if launcher.is_flag(text) else 2
    options, rest = words[first:at], words[at:]
    if rest and rest[0].text == "--":
        rest = rest[1:]
    if name == ("uv", "run") and rest and rest[0].text in ("-m", "--module"):
        rest = (Word("python"), *rest)
    return " ".join(name), options, rest[launcher.operands :], python


def _python(
    words: tuple[Word, ...],
    launchers: tuple[tuple[str, tuple[Word, ...]], ...],
    environment: Mapping[str, Word],
    commands: Iterable[str],
) -> Started | None:
    at = 0
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "-":
        text = words[at].text
        if text.startswith("-c") or text in ("--version", "-V", "-h", "--help"):
            return None
        if re.fullmatch(r"-[A-Za-z]*m", text):
            break
        at += 2 if text in PYTHON_VALUED else 1
    if at >= len(words):
        return Started("-", (), launchers, environment)
    if not words[at].text.startswith("-") or words[at].text == "-":
        return Started(words[at].text, words[at + 1 :], launchers, environment)
    if at + 1 >= len(words):
        return None
    module, rest = words[at + 1].text, words[at + 2 :]
    if module in MODULES:
        inner = started((*map(Word, MODULES[module]), *rest), commands)
        if inner is None:
            return None
        return Started(
            inner.program,
            inner.arguments,
            (*launchers, *inner.launchers),
            {**environment, **inner.environment},
        )
    return Started(module, rest, launchers, environment)
