"""Texts that are read again: functions, sourced files, ``eval``, and shells of their own."""

from __future__ import annotations

import posixpath
import re
from abc import ABC
from collections.abc import Callable, Mapping, Sequence

from planner.importer.given import Open, Word
from planner.importer.shell import builtins
from planner.importer.shell.builtins import Leaves
from planner.importer.shell.conditions import Status
from planner.importer.shell.expansion import Expander
from planner.importer.shell.flow import Flow, Here
from planner.importer.shell.source import Source
from planner.importer.shell.tree import Tree
from planner.importer.shell.variables import State, Variable

MOST_CALLS_DEEP = 20
"""Functions, files and texts that are read as shell, in each other."""
SHELL_VALUED = frozenset(("-o", "+o", "-O", "+O", "--rcfile", "--init-file"))


class Calls(Flow, ABC):
    """Follows a script into whatever it calls."""

    def __init__(self, beside: Mapping[str, str]) -> None:
        super().__init__()
        self.beside = {posixpath.normpath(path): text for path, text in beside.items()}
        self.files = set(self.beside)
        self.outer: tuple[tuple[str, tuple[Word, ...]], ...] = ()
        """Launchers of the script itself."""
        self.frames: list[dict[str, Variable | None]] = []
        """By function that is being followed: what its local variables hide."""
        self.calls = 0
        self.absent: list[str] = []

    def header(self, source: Source) -> tuple[tuple[str, tuple[Word, ...]], ...]:
        """What ``#SBATCH`` lines ask for, up to the first command."""
        self.state.effort.reach(source, 0)
        words: list[Word] = []
        expander = Expander(source, State(effort=self.state.effort))
        for found in re.finditer(r"(?m)^(?:#SBATCH[ \t]+(.*)|#.*|[ \t]*)$|^.", source.text):
            if found[0] and not found[0].startswith("#") and found[0].strip():
                break
            if found[1]:
                for raw in expander.reader.several(*found.span(1)):
                    words.extend(expander.words(raw))
        return (("sbatch", tuple(words)),) if words else ()

    def followed(self, source: Source) -> Status:
        """All of a source; what leaves it goes on to who called."""
        self.state.effort.reach(source, 0)
        self.state.effort.spend(len(source.text) // 4)
        here = Here(source, Tree(source, self.state.effort))
        self.unread.extend(here.tree.unread())
        if not self.calls:
            try:
                return self.statement(here.tree.root, here)
            except Leaves as left:
                return Status(left.success)
        return self.statement(here.tree.root, here)

    def called(self, source: Source) -> None:
        """Count one call deeper."""
        self.calls += 1
        if self.calls > MOST_CALLS_DEEP:
            raise source.error(0, "functions and files call each other too deeply to be read.")

    def call_function(self, name: str, words: list[Word], expander: Expander) -> Status:
        """A function with its arguments; what it declares local is gone behind it."""
        state = self.state
        there, body = state.functions[name]
        before = state.arguments, state.more_arguments, state.shifted
        state.arguments = words
        state.more_arguments = builtins.arguments_open(expander) and before[1]
        self.called(there.source)
        self.frames.append({})
        try:
            return _until_return(lambda: self.statement(body, there))
        finally:
            self.calls -= 1
            state.arguments, state.more_arguments, state.shifted = before
            for hidden, variable in self.frames.pop().items():
                if variable is None:
                    state.variables.pop(hidden, None)
                else:
                    state.variables[hidden] = variable

    def read_file(self, words: list[Word], here: Here) -> Status:
        """``source file``; one that is not here is noted."""
        path, text = self._beside(words[1].text)
        if text is None:
            self.state.note([Open(f"source {words[1].text}", "", words[1].written)])
            return Status(True)
        arguments = self.state.arguments
        self.called(here.source)
        if len(words) > 2:
            self.state.arguments = words[2:]
        try:
            return _until_return(lambda: self.followed(Source(text, path)))
        finally:
            self.calls -= 1
            self.state.arguments = arguments

    def read_text(self, text: Word, here: Here) -> Status:
        """``eval text``."""
        self.called(here.source)
        try:
            return self.followed(Source(text.text, here.source.name, text))
        finally:
            self.calls -= 1

    def _beside(self, path: str) -> tuple[str, str | None]:
        """A file by its path, else the only one of that name."""
        path = posixpath.normpath(path)
        if path in self.state.files:
            return path, self.state.files[path].text
        name = posixpath.basename(path)
        same = [one for one in self.beside if one == path] or [
            one for one in self.beside if posixpath.basename(one) == name
        ]
        return (same[0], self.beside[same[0]]) if len(same) == 1 else (path, None)

    def start_shell(
        self,
        words: tuple[Word, ...],
        outer: tuple[tuple[str, tuple[Word, ...]], ...],
        environment: Mapping[str, Word],
        here: Here,
        expander: Expander,
    ) -> None:
        """``bash -c text`` and ``bash file``: a shell of its own, which sees what is exported."""
        at, reads_text = 0, False
        options = outer[-1][1] if outer else ()
        wrapped = [word for word in options if word.text.startswith("--wrap=")]
        while at < len(words) and words[at].text.startswith(("-", "+")):
            reads_text = reads_text or bool(re.fullmatch(r"-[a-z]*c[a-z]*", words[at].text))
            at += 2 if words[at].text in SHELL_VALUED else 1
        if wrapped:
            source = Source(wrapped[0].text[7:], here.source.name, wrapped[0].part(7))
            rest: Sequence[Word] = ()
        elif at >= len(words):
            return
        elif reads_text:
            source = Source(words[at].text, here.source.name, words[at])
            rest = words[at + 2 :]
        else:
            path, text = self._beside(words[at].text)
            if text is None:
                self.absent.append(words[at].text)
                return
            source, rest = Source(text, path), words[at + 1 :]
            outer = (*outer, *self.header(source))
        self.called(here.source)
        before, frames, self.frames = self.outer, self.frames, []

        def follow() -> Status:
            state = self.state
            state.variables = {
                name: Variable({0: word}, exported=True) for name, word in environment.items()
            }
            state.functions = {}
            state.arguments, state.shifted = list(rest), 0
            state.more_arguments = builtins.arguments_open(expander)
            return self.followed(source)

        self.outer = outer
        try:
            self.inside(follow)
        finally:
            self.outer, self.frames = before, frames
            self.calls -= 1


def _until_return(follow: Callable[[], Status]) -> Status:
    """The status of a function or a sourced file: of its ``return``, if it comes to one."""
    try:
        return follow()
    except Leaves as left:
        if left.how != "return":
            raise
        return Status(left.success)
