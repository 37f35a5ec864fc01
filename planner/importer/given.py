"""What a person's text gives: values with their places, and the commands that they are given to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """A span of a file: what a diff replaces."""

    file: str
    line: int
    """Counted from 1."""
    start: int
    """Characters before it in the file."""
    end: int


@dataclass(frozen=True, slots=True)
class Open:
    """A value that the text leaves to its surroundings: ``$NODES``, ``$(nproc)``, ``${x:-y}``."""

    name: str
    """The variable, or the substitution as it is written."""
    default: str | None = None
    """What the text itself says for want of one, which is then the value."""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """A setting as it is written, under the framework's own name."""

    name: str
    value: Any
    """A string where the text has words (shell), else what the file's format makes of it."""
    place: Place | None = None
    """The literal that decides it: of a variable, where that is assigned. None: more than one."""
    opens: tuple[Open, ...] = ()
    """What it rests on that the text does not say."""


@dataclass(frozen=True, slots=True)
class Word:
    """An argument of a command, expanded as the shell would."""

    text: str
    place: Place | None = None
    opens: tuple[Open, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that starts a program, taken out of its launchers."""

    program: str
    """A module (``verl.trainer.main_ppo``), a command's name (``trl grpo``), or a script's path."""
    arguments: tuple[Word, ...]
    launchers: tuple[tuple[str, tuple[Word, ...]], ...] = ()
    """Outermost first: ``sbatch`` with its header, ``torchrun``, ``accelerate launch``, ``uv run``;
    each with its own options."""
    environment: Mapping[str, Word] = field(default_factory=dict)
    """Variables that the command sees: exported, or assigned in front of it."""
    end: Place | None = None
    """Where a further argument can be written."""
