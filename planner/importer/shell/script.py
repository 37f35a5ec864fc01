"""A shell script: its simple commands, and which of them start a program."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

from planner.importer import launchers
from planner.importer.given import (
    Launch,
    Open,
    Piece,
    Place,
    UnreadableError,
    Word,
    bounded,
    of_pieces,
)
from planner.importer.shell import builtins, conditions
from planner.importer.shell.builtins import Leaves
from planner.importer.shell.conditions import Status
from planner.importer.shell.expansion import Expander, UnknownError
from planner.importer.shell.flow import Flow, Here
from planner.importer.shell.source import MOST_CHARACTERS, Source
from planner.importer.shell.tree import Tree
from planner.importer.shell.variables import State, Variable
from planner.importer.shell.words import DECLARES, Assignment, Command, Raw, Reader

MOST_CALLS_DEEP = 20
"""Functions, files and texts that are read as shell, in each other."""
PASSED = re.compile(r'"?\$(?:[@*]|\{[@*][^}]*\})"?')
"""Behind these no further argument is written: what a caller adds stays last."""
SPACE = Piece(" ", None)
PLAIN: dict[str, Callable[[Sequence[Word], Expander], None]] = {
    "unset": lambda words, expander: builtins.unset(words, expander.state),
    "set": builtins.set_options,
}
SHELL_VALUED = frozenset(("-o", "+o", "-O", "+O", "--rcfile", "--init-file"))


def read_shell(text: str, name: str, beside: Mapping[str, str]) -> tuple[Launch, ...]:
    """The commands of a script that start a program, as bash would expand them.

    What the text leaves open is taken as unset where that decides something, and stands in
    ``opens``; what commands print is never known, and programs are taken to succeed.

    Args:
        text: the script. Where lines end as on Windows, places count such an end as one character.
        name: of the file, for places and messages.
        beside: further files by their paths, which it may source or start.

    Raises:
        UnreadableError: over a bound, where bash would not go on either, and where nothing is
            started and part of the text could not be read.
    """
    bounded(text, name, MOST_CHARACTERS)
    return _launches(Source(text.replace("\r\n", "\n"), name), beside)


def read_arguments(text: str, name: str, program: str) -> tuple[Launch, ...]:
    """The command of a program whose arguments are given by themselves, a line or more of them.

    Args:
        text: arguments; ends of lines separate them, behind a backslash or not.
        name: of the file, for places and messages.
        program: what stands before them in a shell.

    Raises:
        UnreadableError: as :func:`read_shell` does.
    """
    bounded(text, name, MOST_CHARACTERS)
    pieces, at = [Piece(f"{program} ", None)], 0
    for number, line in enumerate(text.replace("\r\n", "\n").splitlines(keepends=True), start=1):
        end = at + len(line)
        said = line.rstrip("\n").rstrip().removesuffix("\\")
        said = "" if said.lstrip().startswith("#") else said
        pieces.append(Piece(said.ljust(len(line)), Place(name, number, at, end)))
        at = end
    whole = of_pieces(pieces)
    return _launches(Source(whole.text, name, whole), {})


def _launches(source: Source, beside: Mapping[str, str]) -> tuple[Launch, ...]:
    from planner.plan.frameworks import frameworks

    name = source.name
    script = _Script(beside, frozenset(frameworks()))
    script.outer = script.header(source)
    script.followed(source)
    if not script.launches and script.unread:
        first = script.unread[0]
        raise UnreadableError(
            first.file, first.line, "this is no shell that could be read, and nothing is started."
        )
    if not script.launches and script.absent:
        raise UnreadableError(
            name, 1, f"it starts {script.absent[0]}, which is not here. Give that file as well."
        )
    return tuple(script.launches)


class _Script(Flow):
    def __init__(self, beside: Mapping[str, str], commands: frozenset[str]) -> None:
        super().__init__()
        self.beside = {posixpath.normpath(path): text for path, text in beside.items()}
        self.files = set(self.beside)
        self.commands = commands
        self.outer: tuple[tuple[str, tuple[Word, ...]], ...] = ()
        """Launchers of the script itself."""
        self.frames: list[dict[str, Variable | None]] = []
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

    def simple(self, here: Here, start: int, end: int, documents: Sequence[Word] = ()) -> Status:
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
        for kind, raw in command.redirects:
            if kind in (">", ">>", ">|"):
                for target in expander.words(raw):
                    self._write(target, kind == ">>", self.printed)
        if any(kind in (">", ">>", ">|", "&>") for kind, _ in command.redirects):
            self.printed = None

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
            return self._call(head, words[1:], expander)
        if head in ("source", ".") and len(words) > 1:
            return self._source(words, here)
        if head == "eval":
            text = of_pieces([piece for word in words[1:] for piece in (*word.pieces, SPACE)])
            return self._eval(text, here)
        at = command.start
        if head in ("[", "test"):
            inside = words[1:-1] if head == "[" and words[-1].text == "]" else words[1:]
            return conditions.single(inside, expander, self.files, at)
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

    def _call(self, name: str, words: list[Word], expander: Expander) -> Status:
        """A function with its arguments; what it declares local is gone behind it."""
        state = self.state
        there, body = state.functions[name]
        before = state.arguments, state.more_arguments, state.shifted
        state.arguments = words
        state.more_arguments = builtins.arguments_open(expander) and before[1]
        self.called(there.source)
        self.frames.append({})
        try:
            return self.statement(body, there)
        except Leaves as left:
            if left.how != "return":
                raise
            return Status(left.success)
        finally:
            self.calls -= 1
            state.arguments, state.more_arguments, state.shifted = before
            for hidden, variable in self.frames.pop().items():
                if variable is None:
                    state.variables.pop(hidden, None)
                else:
                    state.variables[hidden] = variable

    def _source(self, words: list[Word], here: Here) -> Status:
        path, text = self._beside(words[1].text)
        if text is None:
            self.state.note([Open(f"source {words[1].text}", "", words[1].written)])
            return Status(True)
        arguments = self.state.arguments
        self.called(here.source)
        if len(words) > 2:
            self.state.arguments = words[2:]
        try:
            return self.followed(Source(text, path))
        except Leaves as left:
            if left.how != "return":
                raise
            return Status(left.success)
        finally:
            self.calls -= 1
            self.state.arguments = arguments

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

    def _eval(self, text: Word, here: Here) -> Status:
        self.called(here.source)
        try:
            return self.followed(Source(text.text, here.source.name, text))
        finally:
            self.calls -= 1

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
        status = Status(True, ended.opens, ran=True, assumed=True)
        if words[0].text == "sed":
            for word in words:
                state.files.pop(posixpath.normpath(word.text), None)
        started = launchers.started(tuple(words), self.commands)
        if started is None:
            return status
        environment = state.environment()
        inner = self.expander(here)
        for one in command.assignments:
            if isinstance(one.value, Raw):
                environment[one.name] = inner.text(one.value)
        environment |= started.environment
        outer = (*self.outer, *started.launchers)
        if started.program is None:
            self._shell(started.arguments, outer, environment, here, expander)
            return status
        files = dict(state.files)
        if given is not None and started.program == "-":
            files["-"] = given
        opens = (*state.under, *state.noted, *expander.dropped, *words[0].opens)
        self.launches.append(
            Launch(
                started.program,
                started.arguments,
                outer,
                environment,
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

    def _shell(
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
