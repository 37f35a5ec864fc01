"""References in verl's YAML to other settings: ``${a.b}``, ``${oc.select:a.b,default}``.

Nothing but settings is looked up: no environment, no file, no other resolver.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

DEEPEST = 8
"""References in a row that are followed; the YAML has three."""
LONGEST = 10_000
"""Characters of a value that others are filled into."""
_TEXT = re.compile(r"\$\{(?:oc\.select:)?(\.?[\w.]+)(?:,\s*([^${}]*))?\}")
_WORDS: dict[str, Any] = {"null": None, "true": True, "false": False, "[]": [], "{}": {}}


class Unresolved(ValueError):
    """A value refers to something that is no setting here."""


class Resolved:
    """Settings' values with references filled in; each is looked up once."""

    def __init__(self, values: Mapping[str, Any], asked: Collection[str] = ()) -> None:
        """``asked`` are settings that nobody said, so no other can refer to them."""
        self.values, self.asked = values, asked
        self._found: dict[str, Any] = {}

    def value(self, name: str, depth: int = DEEPEST) -> Any:
        """A setting's value.

        Raises:
            Unresolved: it refers to what is no setting, or through too many others.
        """
        if name not in self._found:
            self._found[name] = self.filled(name, self.values[name], depth)
        return self._found[name]

    def filled(self, name: str, value: Any, depth: int = DEEPEST) -> Any:
        """A value as it would be under this name, raising as :meth:`value` does."""
        if not isinstance(value, str) or "${" not in value:
            return value
        if depth == 0:
            raise Unresolved(f"{name} follows too many settings in a row.")
        if alone := _TEXT.fullmatch(value):
            return self._other(name, alone, depth)
        text = _TEXT.sub(lambda found: str(self._other(name, found, depth)), value)
        if "${" in text or len(text) > LONGEST:
            raise Unresolved(f"{value[:80]} is nothing that the settings say.")
        return text

    def _other(self, name: str, found: re.Match[str], depth: int) -> Any:
        other, default = found.groups()
        if other.startswith("."):  # beside this one
            other = f"{name.rpartition('.')[0]}{other}"
        if other in self.asked:
            raise Unresolved(f"{other} is not said.")
        if other in self.values:
            return self.value(other, depth - 1)
        if default is None:
            raise Unresolved(f"{found.group()[:80]} is no setting here.")
        return _plain(default.strip())


def _plain(text: str) -> Any:
    """A default, as YAML would read its word."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text
