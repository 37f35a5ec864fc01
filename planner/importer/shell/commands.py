"""A script's simple commands, and which of them start a program."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from planner.importer.given import Launch, Open, Piece, Place, Word, of_pieces
from planner.importer.shell import builtins, conditions
from planner.importer.shell.calls import Calls
from planner.importer.shell.conditions import Status
from planner.importer.shell.evaluation import UnknownError
from planner.importer.shell.expansion import Expander
from planner.importer.shell.flow import Here
from planner.importer.shell.parts import Assignment, Command, Raw
from planner.importer.shell.single_brackets import single
from planner.importer.shell.statements import ACTS
from planner.importer.shell.words import DECLARES, Reader
from planner.importer.started import started

PASSED = re.compile(r'"?\$(?:[@*]|\{[@*][^}]*\})"?')
"""Behind these no further argument is written: what a caller adds stays last."""
SPACE = Piece(" ", None)
PLAIN: dict[str, Callable[[Sequence[Word], Expander], None]] = {
    "unset": lambda words, expander: builtins.unset(words, expander.state),
    "set": builtins.set_options,
}


class Commands(Calls):
    """Does what a script's simple commands do to what it says."""

    acts = ACTS

    def __init__(self, beside: Mapping[str, str], frameworks: frozenset[str]) -> None:
        super().__init__(beside)
        self.frameworks = frameworks
        """Names of commands that start a program by ``name subcommand``."""

    def simple(self, here: Here, start: int, end: int, documents: Sequence[Word] = ()) -> Status:
        """The simple commands of a span, each with the here-documents that it is given."""
        reader, status = Reader(here.source), Status(True)
        waiting = list(documents)
        while True:
            command = reader.simple(start, end)
            wanted = sum(kind.startswith("<<") and kind != "<<<" for kind, _ in command.redirects)
            status = self.run(command, here, waiting[:wanted])
            del waiting[:wanted]
            start = reader.blank(command.end, end)
            if start >= end or here.source.text[start] not in "\n;":
                break
            # The grammar joins a line behind a redirect to the one before.
            start = reader.blank(start + 1, end, lines=True)
            if start >= end:
                break
        if start < end and not documents and (place := here.source.place(start, end)):
            self.unread.append(place)
        return status

    def run(self, command: Command, here: Here, documents: Sequence[Word]) -> Status:
        """One simple command: its words expanded, then what it does."""
        self.printed = None
        expander = self.expander(here, asks=self._asks(command))
        found: list[Word | Assignment] = []
        for one in command.words:
            if isinstance(one, Assignment):
                found.append(one)
            else:
                found.extend(expander.words(one))
        given = documents[-1] if documents else self.piped
        for kind, raw in command.redirects:
            if kind == "<<<":
                given = expander.text(raw)
        if not command.words:
            for assignment in command.assignments:
                builtins.assign(assignment, expander)
            return Status(True)
        if not found:
            return Status(True)
        words = [one for one in found if isinstance(one, Word)]
        status = self._started(command, here, expander, found, words, given)
        self._written(command, expander)
        return status

    def _asks(self, command: Command) -> bool:
        first = command.words[0] if command.words else None
        return isinstance(first, Raw) and first.literal in ("[", "test")

    def _written(self, command: Command, expander: Expander) -> None:
        """What was printed into a file is a file beside."""
        printed = self.printed
        for kind, raw in command.redirects:
            if kind in (">", ">>", ">|"):
                self.printed = None
                for target in expander.words(raw):
                    self._write(target, kind == ">>", printed)

    def _write(self, target: Word, append: bool, text: Word | None) -> None:
        path = posixpath.normpath(target.text)
        files = self.state.files
        before = files.get(path) if append else None
        if text is None or path.startswith("/dev/"):
            files.pop(path, None)
            return
        if before:
            self.state.effort.spend(len(before.pieces) // 4)
            text = of_pieces((*before.pieces, *text.pieces))
        files[path] = text
        self.files.add(path)

    def _started(
        self,
        command: Command,
        here: Here,
        expander: Expander,
        found: Sequence[Word | Assignment],
        words: list[Word],
        given: Word | None,
    ) -> Status:
        head = words[0].text
        if head in self.state.functions:
            return self.call_function(head, words[1:], expander)
        if head in ("source", ".") and len(words) > 1:
            return self.read_file(words, here)
        if head == "eval":
            text = of_pieces([piece for word in words[1:] for piece in (*word.pieces, SPACE)])
            return self.read_text(text, here)
        at = command.start
        if head in ("[", "test"):
            inside = words[1:-1] if head == "[" and words[-1].text == "]" else words[1:]
            return single(inside, expander, self.files, at)
        if head in ("exit", "return", "break", "continue"):
            raise builtins.leave(words)
        if head in DECLARES:
            builtins.declare(found, expander, self.frames[-1] if self.frames else None)
        elif head in PLAIN:
            PLAIN[head](words, expander)
        elif head in ("read", "mapfile", "readarray"):
            builtins.read(words, self.state, given, words[0])
            return conditions.unknown(head, expander, at, success=True)
        elif head == "shift":
            return Status(builtins.shift(words, self.state))
        elif head == "let":
            return self._let(words, expander, at)
        elif head in ("echo", "cat", "tee"):
            self._print(head, words, given)
        elif head in ("true", ":", "false"):
            return Status(head != "false")
        elif head == "getopts":
            return conditions.unknown("getopts", expander, at)
        else:
            return self._program(command, here, expander, words, given)
        return Status(True)

    def _print(self, head: str, words: list[Word], given: Word | None) -> None:
        names = [word for word in words[1:] if not word.text.startswith("-")]
        if head == "echo":
            self.printed = builtins.echoed(words)
        elif head == "tee":
            self.printed = given
            for name in names:
                self._write(name, "-a" in [word.text for word in words], given)
        elif not names:
            self.printed = given
        else:
            files = [self.state.files.get(posixpath.normpath(name.text)) for name in names]
            if all(files):
                pieces = list[Piece]()
                for one in filter(None, files):
                    self.state.effort.spend(len(one.pieces) + len(one.text) // 16)
                    pieces.extend(one.pieces)
                self.printed = of_pieces(pieces)

    def _let(self, words: Sequence[Word], expander: Expander, at: int) -> Status:
        value, opens = 0, tuple[Open, ...]()
        for word in words[1:]:
            try:
                value, opens = expander.value(word, at)
            except UnknownError:
                return conditions.unknown(f"let {word.text}", expander, at)
        return Status(value != 0, opens)

    def _program(
        self,
        command: Command,
        here: Here,
        expander: Expander,
        words: list[Word],
        given: Word | None,
    ) -> Status:
        state = self.state
        shown = " ".join(word.text for word in words)
        ended = conditions.unknown(shown, expander, command.start, success=True)
        status = replace(ended, ran=True)
        if words[0].text == "sed":
            for word in words:
                state.files.pop(posixpath.normpath(word.text), None)
        found = started(tuple(words), self.frameworks)
        if found is None:
            return status
        environment = state.environment()
        inner = self.expander(here)
        for one in command.assignments:
            if isinstance(one.value, Raw):
                environment[one.name] = inner.text(one.value)
        environment |= found.environment
        outer = (*self.outer, *found.launchers)
        if found.program is None:
            self.start_shell(found.arguments, outer, environment, here, expander)
            return status
        files = dict(state.files)
        if given is not None and found.program == "-":
            files["-"] = given
        opens = (*state.under, *state.noted, *expander.dropped, *words[0].opens)
        self.launches.append(
            Launch(
                found.program,
                found.arguments,
                outer,
                {**state.passing(), **environment},
                self._end(command, here),
                files,
                tuple(dict.fromkeys(opens)),
                tuple(self.unread),
            )
        )
        return status

    def _end(self, command: Command, here: Here) -> Place | None:
        raws = [one for one in command.words if isinstance(one, Raw)]
        text = here.source.text
        while len(raws) > 1 and PASSED.fullmatch(text[raws[-1].start : raws[-1].end]):
            raws.pop()
        return here.source.place(raws[-1].end, raws[-1].end, ("argument",))
