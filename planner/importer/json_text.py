"""JSON with the places of its values: DeepSpeed's configurations, ``trainer_state.json``."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from typing import Any

from planner.importer.given import Document, Given, Place, UnreadableError, bounded

MOST_CHARACTERS = 2_000_000
"""A trainer's state has an entry for every logged step."""
MOST_DEPTH = 30
BLANK = re.compile(r"[ \t\n]*")
SCALAR = re.compile(
    r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|NaN|-?Infinity'
)


def read_json(text: str, name: str) -> Document:
    """Settings of a JSON file, nested objects by names with dots, lists as values.

    ``NaN`` and ``Infinity`` are read, which trainers write.

    Raises:
        UnreadableError: no JSON object, or over a bound.
    """
    bounded(text, name, MOST_CHARACTERS)
    reader = _Reader(text.replace("\r\n", "\n"), name)
    at = reader.blank(1 if text.startswith("\ufeff") else 0)
    if not reader.text.startswith("{", at):
        raise reader.error(at, "settings are a JSON object, which begins with a brace.")
    at = reader.blank(reader.object(at, "", 0)[1])
    if at < len(reader.text):
        raise reader.error(at, "something follows the JSON object.")
    return Document(tuple(reader.givens.values()), reader.ends)


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.givens: dict[str, Given] = {}
        self.ends: dict[str, Place] = {}
        self.breaks = [found.start() for found in re.finditer("\n", text)]

    def line(self, at: int) -> int:
        return bisect_left(self.breaks, at) + 1

    def error(self, at: int, message: str) -> UnreadableError:
        return UnreadableError(self.name, self.line(at), message)

    def blank(self, at: int) -> int:
        found = BLANK.match(self.text, at)
        return found.end() if found else at

    def place(self, start: int, end: int, form: str) -> Place:
        return Place(self.name, self.line(start), start, end, (form,))

    def object(self, at: int, prefix: str | None, depth: int) -> tuple[dict[str, Any], int]:
        """An object and where it ends; under a prefix its values are settings."""
        found: dict[str, Any] = {}
        last = at + 1
        at = self.blank(at + 1)
        while not (self.text.startswith("}", at) and not found):
            key, at = self.scalar(at)
            if not isinstance(key, str):
                raise self.error(at, "a name in double quotes is expected here.")
            at = self.expect(":", at)
            name = None if prefix is None else f"{prefix}{key}"
            found[key], last = self.value(at, name, depth + 1)
            at = self.blank(last)
            if self.text.startswith("}", at):
                break
            at = self.expect(",", at)
        if prefix is not None:
            self.ends[prefix.rstrip(".")] = self.place(last, last, "json entry")
        return found, at + 1

    def expect(self, sign: str, at: int) -> int:
        at = self.blank(at)
        if not self.text.startswith(sign, at):
            raise self.error(at, f"{sign} is expected here.")
        return self.blank(at + 1)

    def value(self, at: int, name: str | None, depth: int) -> tuple[Any, int]:
        if depth > MOST_DEPTH:
            raise self.error(at, f"more than {MOST_DEPTH} levels are not read.")
        value: Any
        if self.text.startswith("{", at):
            value, end = self.object(at, None if name is None else f"{name}.", depth)
            if value or name is None:
                return value, end
        elif self.text.startswith("[", at):
            value, end = self.list(at, depth)
        else:
            value, end = self.scalar(at)
        if name is not None:
            self.givens.pop(name, None)
            self.givens[name] = Given(name, value, self.place(at, end, "json"))
        return value, end

    def list(self, at: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = self.blank(at + 1)
        while not (self.text.startswith("]", at) and not found):
            value, at = self.value(at, None, depth + 1)
            found.append(value)
            at = self.blank(at)
            if self.text.startswith("]", at):
                break
            at = self.expect(",", at)
        return found, at + 1

    def scalar(self, at: int) -> tuple[Any, int]:
        found = SCALAR.match(self.text, at)
        if not found:
            raise self.error(at, "a value of JSON is expected here.")
        try:
            return json.loads(found[0]), found.end()
        except ValueError as error:
            raise self.error(at, f"{found[0][:40]} is no value of JSON.") from error
