"""A script for the grammar: every word that is more than a plain one as so many letters.

tree-sitter's grammar gives up on arithmetic in here-documents, takes ``${Y:-$((N/2))}`` for a
command and splits some patterns. Words are read from the script itself; of it the grammar sees what
makes statements, character for character in the same places.
"""

from __future__ import annotations

import re

from planner.importer.effort import Effort
from planner.importer.shell.parts import Raw
from planner.importer.shell.source import Source
from planner.importer.shell.words import META, Reader

PLAIN = re.compile(r"[\w./+-]+|[!{}]", re.A)
DOCUMENT = re.compile(r"<<(-?)(?!<)[ \t]*")
TEST = re.compile(r"\[\[?(?=[ \t\n])")
IDENTIFIER = re.compile(r"\w+")


def masked(source: Source, effort: Effort) -> str:
    """The script as it is shown to the grammar; all ASCII.

    Raises:
        UnreadableError: a quote, an expansion or a here-document is not closed.
    """
    return "".join(_Mask(source, effort).runs())


class _Mask:
    def __init__(self, source: Source, effort: Effort) -> None:
        self.effort = effort
        self.source, self.text = source, source.text
        self.reader = Reader(source)
        self.end = len(source.text)
        self.out: list[str] = []
        self.waiting: list[tuple[str, bool, int]] = []

    def runs(self) -> list[str]:
        text, at = self.text, 0
        while at < self.end:
            one = text[at]
            if one == "\n":
                self.out.append(one)
                at = self.documents(at + 1)
            elif one in " \t" or text.startswith("\\\n", at):
                size = 2 if one == "\\" else 1
                self.out.append(" " * size)
                at += size
            elif one == "#":
                stop = text.find("\n", at)
                at = self.hide(at, stop if stop >= 0 else self.end, "#")
            elif text.startswith("<<<", at):
                self.out.append("<<<")
                at += 3
            elif (found := DOCUMENT.match(text, at)) and one == "<":
                at = self.announced(found)
            elif text.startswith("((", at) and (inner := self.arithmetic(at)):
                hidden = re.sub(r"[^;]", "1", text[at + 2 : inner])
                self.out.append(f"(({hidden}))")
                at = inner + 2
            elif one in META and not (one in "<>" and text.startswith("(", at + 1)):
                self.out.append(one)
                at += 1
            else:
                at = self.word(at)
        if self.waiting:
            raise self.source.error(self.waiting[0][2], "the document that begins here has no end.")
        return self.out

    def hide(self, at: int, end: int, first: str = "") -> int:
        """Letters up to ``end``, behind what is kept."""
        self.out.append((first + "x" * (end - at - len(first)))[: end - at])
        return end

    def word(self, at: int) -> int:
        text = self.text
        test = TEST.match(text, at)
        if test and (close := self.tested(test.end(), "]" * len(test[0]))):
            inside = close - test.end()
            self.out.append(f"{test[0]} {'x' * (inside - 2)} {']' * len(test[0])}")
            return close + len(test[0])
        if assignment := self.reader.assignment(at, self.end):
            name = IDENTIFIER.match(text, at)
            size = name.end() - at if name else 0
            sign = text.index("=", self.subscript(at + size))
            self.out.append(f"{text[at : at + size]}{'_' * (sign - at - size)}=")
            return self.hide(sign + 1, assignment[1])
        raw = self.reader.word(at, self.end)
        if raw.end == at:
            self.out.append("x")
            return at + 1
        if PLAIN.fullmatch(text, at, raw.end):
            self.out.append(text[at : raw.end])
            return raw.end
        return self.hide(at, raw.end)

    def subscript(self, at: int) -> int:
        """Behind a subscript, in which there may be an equals sign."""
        if self.text.startswith("[", at):
            return self.reader.bracketed(at + 1, self.end)
        return at

    def tested(self, at: int, closing: str) -> int:
        """Where the condition that begins before ``at`` closes; 0 where it does not."""
        text = self.text
        while (at := self.reader.blank(at, self.end, lines=closing == "]]")) < self.end:
            self.effort.spend(1)
            word = self.reader.word(at, self.end)
            if text[at : word.end] == closing:
                return at
            if word.end == at and (closing == "]" or text[at] == ";"):
                return 0
            at = max(word.end, at + 1)
        return 0

    def arithmetic(self, at: int) -> int:
        """Where ``((`` closes with both its parentheses; 0 for a subshell in a subshell."""
        try:
            inner = self.reader.nested(at + 2, self.end)
        except ValueError:
            return 0
        return inner - 1 if self.text.startswith(")", inner) else 0

    def announced(self, found: re.Match[str]) -> int:
        """A here-document's beginning, whose text follows on the next line."""
        raw: Raw = self.reader.word(found.end(), self.end)
        written = self.text[raw.start : raw.end]
        ending = raw.literal if raw.literal is not None else written
        self.waiting.append((ending, bool(found[1]), found.start()))
        self.out.append(self.text[found.start() : raw.end])
        return raw.end

    def documents(self, at: int) -> int:
        """The texts of the documents that were announced on the line before."""
        for ending, tabs, start in self.waiting:
            while True:
                stop = self.text.find("\n", at)
                stop = self.end if stop < 0 else stop
                line = self.text[at:stop]
                if (line.lstrip("\t") if tabs else line) == ending:
                    self.out.append(line)
                    at = stop
                    break
                if stop == self.end:
                    raise self.source.error(start, "the document that begins here has no end.")
                self.out.append("." * len(line) + "\n")
                at = stop + 1
            if at < self.end and (ending, tabs, start) != self.waiting[-1]:
                self.out.append("\n")
                at += 1
        self.waiting = []
        return at
