"""Where a setting that nothing says yet can stand: launchers, their files, a call, the command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from planner.importer.flags import flags
from planner.importer.given import Further, Given, Launch
from planner.importer.huggingface.calls import PARSERS, Spoken, argument, owners
from planner.importer.huggingface.sharing import DEEPSPEED, FILES, KIND, KINDS, PREFIX
from planner.importer.python_text import CONSTANT
from planner.importer.reading import Files
from planner.values.setting import Setting

LAUNCHERS = ("config_file", "accelerate_config")
"""What names accelerate's configuration, as ``accelerate launch`` and ``trl`` call it."""
ZERO = "deepspeed."


def further(
    row: Setting, value: object, launch: Launch, files: Files, spoken: Spoken
) -> Further:
    """Where a setting of a table can stand.

    Args:
        row: of TRL's or transformers' table, with accelerate's and DeepSpeed's settings.
        value: what it is to be.
        launch: what starts the trainer.
        files: what is beside it.
        spoken: how a script calls the trainer's settings.
    """
    name = row.name
    if name.startswith(ZERO):
        file = _named(FILES, launch, files)
        short = {setting: flag for flag, setting in DEEPSPEED.items()}
        path = name.removeprefix(ZERO)
        return Further(file=file, path=path) if file else _option(short.get(path), value, launch)
    if name.startswith(PREFIX):
        file = _named(LAUNCHERS, launch, files)
        path = name.removeprefix(PREFIX)
        if file:
            return Further(file=file, path=path)
        flag = next((flag for flag, kind in KINDS.items() if name == KIND and kind == value), "")
        return _option(flag or path.rpartition(".")[2], None if flag else value, launch)
    path = next(_calls(row, launch, files, spoken), "")
    if path:
        return Further(file=launch.program, path=path)
    if "." in name or not _parses(launch, files):
        return Further()
    return Further(words=(f"--{name}", *_texts(value)))


def _option(flag: str | None, value: object, launch: Launch) -> Further:
    """As an option of what starts the processes; ``trl`` hands its own on."""
    starts = [name for name, _ in launch.launchers[-1:]]
    if not flag or not (starts == ["accelerate launch"] or launch.program.startswith("trl ")):
        return Further()
    words = (f"--{flag}",) if value is None else (f"--{flag}", *_texts(value))
    return Further(words=words, of_launcher=bool(starts))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)


def _named(names: tuple[str, ...], launch: Launch, files: Files) -> str:
    """The file beside that one of these settings names; empty where none does, or it is not."""
    for one in _everything(launch, files):
        if one.name.rpartition(".")[2] in {name.rpartition(".")[2] for name in names}:
            for path in (str(one.value), PurePosixPath(str(one.value)).name):
                if path in files:
                    return path
    return ""


def _everything(launch: Launch, files: Files) -> Iterator[Given]:
    for _, words in launch.launchers:
        yield from flags(words, ())
    yield from flags(launch.arguments, ())
    for givens in files.values():
        yield from givens


def _calls(row: Setting, launch: Launch, files: Files, spoken: Spoken) -> Iterator[str]:
    """Where calls of the launched script take a setting, by its name there.

    Of a program that was exported here only its constants, of which the calls are made.
    """
    given = dict.fromkeys(one.name for one in files.get(launch.program, ()))
    calls = dict.fromkeys(name.rpartition(".")[0] for name in given)
    for call in (CONSTANT,) if CONSTANT in calls else calls:
        name = argument(row, call, spoken)
        if name and f"{call}.{name.partition('.')[0]}" not in given:
            yield f"{call}.{name}"


def _parses(launch: Launch, files: Files) -> bool:
    """Whether the program takes settings from its command, as far as its source is here."""
    called = owners(files.get(launch.program, ()))
    return not called or any(one in PARSERS for one in called)
