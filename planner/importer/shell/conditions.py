"""Conditions on what the text says: how they end, and what ``[ … ]`` and ``[[ … ]]`` share."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Callable, Collection
from dataclasses import dataclass

from planner.importer.given import Open, Word
from planner.importer.shell.arithmetic import wrapped
from planner.importer.shell.evaluation import UnknownError
from planner.importer.shell.expansion import Expander
from planner.importer.shell.joined import Joined
from planner.importer.shell.source import MOST_DEPTH

NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
TEXTS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}
FILES = frozenset(f"-{one}" for one in "abcdefghkprstuwxLSGON")
"""Asked of a file, or of a descriptor."""
BETWEEN_FILES = frozenset(("-nt", "-ot", "-ef"))
INTEGER = re.compile(r"\s*([-+]?)0*(\d{1,19})\s*")


@dataclass(frozen=True, slots=True)
class Status:
    """How a command ended, and what that rests on."""

    success: bool = True
    opens: tuple[Open, ...] = ()
    ran: bool = False
    """Of a program, which is taken to succeed."""
    assumed: bool = False
    """Nobody knows it from the text, not even where nothing comes from outside."""


def unknown(text: str, expander: Expander, at: int, success: bool = False) -> Status:
    """What nobody can know from the text, and what it is taken for."""
    shown = " ".join(text.split())[:120]
    place = expander.source.place(at, at)
    said = Open(shown, "true" if success else "false", place)
    return Status(success, (said,), assumed=True)


def arithmetic(start: int, end: int, expander: Expander) -> Status:
    """``((…))`` around these positions: success where it is not zero."""
    try:
        value, opens = expander.number(start, end)
    except UnknownError:
        return unknown(f"(({expander.source.text[start:end]}))", expander, start)
    return Status(value != 0, opens)


class Condition(Joined, ABC):
    """One condition: its operands' opens gather while it is evaluated."""

    def __init__(self, expander: Expander, files: Collection[str], start: int) -> None:
        self.expander, self.files, self.start = expander, files, start
        self.opens: list[Open] = []

    def nested(self, inner: Callable[[], int], at: int) -> bool:
        """What stands in a parenthesis, or behind ``!``."""
        self.expander.depth += 1
        if self.expander.depth > MOST_DEPTH:
            raise self.expander.source.error(at, "a condition is nested too deeply.")
        value = bool(inner())
        self.expander.depth -= 1
        return value

    def known(self, word: Word) -> str:
        """The text of an operand; raises UnknownError."""
        if not word.known:
            raise UnknownError(word.opens)
        self.opens.extend(word.opens)
        return word.text

    def unary(self, operator: str, word: Word) -> bool:
        """``-z``, ``-n``, ``-v`` and what is asked of files; raises UnknownError."""
        if operator == "-z":
            return not self.known(word)
        if operator == "-n":
            return bool(self.known(word))
        if operator == "-v":
            name = self.known(word)
            if name in self.expander.state.variables:
                return bool(self.expander.state.variables[name].values)
            self.opens.append(Open(name, "", word.written))
            return False
        path = self.known(word)
        if path.removeprefix("./") in self.files and operator in ("-e", "-f", "-r", "-s"):
            return True
        raise UnknownError(())

    def binary(self, left: Word, operator: str, right: Word) -> bool:
        """Two texts or two numbers compared; raises UnknownError."""
        if operator in BETWEEN_FILES:
            raise UnknownError(())
        a, b = self.known(left), self.known(right)
        if operator in TEXTS:
            return TEXTS[operator](a, b)
        numbers = [int(found[1] + found[2]) for one in (a, b) if (found := INTEGER.fullmatch(one))]
        if len(numbers) < 2 or any(wrapped(one) != one for one in numbers):
            return False
        return NUMBERS[operator](*numbers)
