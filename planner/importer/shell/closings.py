"""Where an open quote, bracket or expansion ends."""

from __future__ import annotations

import re

from planner.importer.shell.source import MOST_DEPTH, Source

NESTS = re.compile(r"[^\\'\"$`()\[\]{}]+")
DEFAULTS = re.compile(r"\$\{[#!]?(?:\w+|[@*#?$!-])(?:\[[^]]*\])?:?[-=+?]")
"""Where an apostrophe in double quotes is one character."""


class Closings:
    """Finds closings in a source. All positions are characters of its text."""

    def __init__(self, source: Source) -> None:
        self.source, self.text, self.depth = source, source.text, 0

    def braced(self, at: int, end: int, quoted: bool) -> int:
        """After the brace that closes the ``${`` at ``at``."""
        named = DEFAULTS.match(self.text, at, end)
        return self._until("}", at + 2, end, apostrophes=not (quoted and named))

    def doubled(self, at: int, end: int) -> int:
        """After the double quote that closes one before ``at``."""
        return self._until('"', at, end, apostrophes=False)

    def nested(self, at: int, end: int) -> int:
        """After the parenthesis that closes one before ``at``."""
        return self._until(")", at, end, apostrophes=True)

    def bracketed(self, at: int, end: int) -> int:
        """After the bracket that closes one before ``at``."""
        return self._until("]", at, end, apostrophes=True)

    def _until(self, closing: str, at: int, end: int, apostrophes: bool) -> int:
        text, start = self.text, at
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self.source.error(at, "expansions are nested too deeply to be read.")
        while at < end:
            if found := NESTS.match(text, at, end):
                at = found.end()
                continue
            one = text[at]
            if one == closing:
                self.depth -= 1
                return at + 1
            if one == "\\":
                at += 2
            elif one == "'" and apostrophes:
                at = self.find("'", at + 1, end) + 1
            elif one == '"' and closing != '"':
                at = self.doubled(at + 1, end)
            elif one == "`":
                at = self.find("`", at + 1, end) + 1
            elif one == "$" and text.startswith("{", at + 1):
                at = self.braced(at, end, closing == '"')
            elif (one == "$" and text.startswith("(", at + 1)) or (one == "(" and closing == ")"):
                at = self.nested(at + (2 if one == "$" else 1), end)
            elif one == "[" and closing == "]":
                at = self.bracketed(at + 1, end)
            else:
                at += 1
        raise self.source.error(start, f"what begins here is not closed: {closing} is missing.")

    def find(self, one: str, at: int, end: int) -> int:
        """Where a character stands next that closes what begins before ``at``."""
        found = self.text.find(one, at, end)
        if found < 0:
            raise self.source.error(at, f"what begins here is not closed: {one} is missing.")
        return found
