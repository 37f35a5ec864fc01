"""What a written word comes to: a text, a pattern, a number, the key of an array."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Self

from planner.importer.given import Open, Piece, Word, of_pieces
from planner.importer.shell import patterns
from planner.importer.shell.arithmetic import ExpressionError, evaluated
from planner.importer.shell.parts import DOUBLE, Part, Raw
from planner.importer.shell.source import MOST_DEPTH, Source
from planner.importer.shell.variables import UNSET, State, Variable
from planner.importer.shell.words import Reader

STEPS_OF_A_BRACKET = 5

Chunk = tuple[Piece, bool, bool] | tuple[Word, None, None] | None
"""A piece, whether it is quoted and whether it is split; a whole word; None between two words."""


class UnknownError(Exception):
    """A value rests on what the text does not say."""

    def __init__(self, opens: Sequence[Open]) -> None:
        super().__init__()
        self.opens = tuple(opens)


class Evaluator(ABC):
    """Evaluates words of one source in a state; how parts are expanded is left to an expander."""

    def __init__(self, source: Source, state: State) -> None:
        self.source, self.state = source, state
        self.reader = Reader(source)
        self.empty = False
        """Whether variables from outside are taken as unset, as a condition takes them."""
        self.dropped: list[Open] = []
        """What words rest on that came to nothing: ``"$@"``, ``${x:-}`` of what nobody set."""
        self.depth = 0

    @abstractmethod
    def chunks(self, parts: Sequence[Part]) -> Iterator[Chunk]:
        """What parts of a word expand to, before anything is split."""

    def text(self, raw: Raw) -> Word:
        """One word, nothing split: the value of an assignment, a here-document."""
        pieces: list[Piece] = []
        chunks = list(self.chunks(raw.parts))
        if len(chunks) == 1 and chunks[0] and isinstance(chunks[0][0], Word):
            return chunks[0][0]
        for chunk in chunks:
            if chunk is None:
                pieces.append(Piece(" ", None))
            elif isinstance(chunk[0], Word):
                pieces.extend(chunk[0].pieces)
            else:
                pieces.append(chunk[0])
        return of_pieces(pieces, self.source.place(raw.start, raw.end, ("word",)))

    def runs(self, raw: Raw, opens: list[Open]) -> list[tuple[str, bool]]:
        """A word's expansion as stretches of text, quoted or not; raises UnknownError.

        What they rest on is added to ``opens``.
        """
        runs = list[tuple[str, bool]]()
        for chunk in self.chunks(raw.parts):
            if chunk is None:
                runs.append((" ", True))
            else:
                runs.append((chunk[0].text, bool(chunk[1])))
                opens.extend(chunk[0].opens)
        if any(one.default is None for one in opens):
            raise UnknownError(opens)
        return runs

    def pattern(self, raw: Raw, opens: list[Open] | None = None) -> tuple[patterns.Token, ...]:
        """A word as a glob pattern; raises UnknownError if its value is not known."""
        opens = [] if opens is None else opens
        runs = self.runs(raw, opens)
        self.state.effort.spend(STEPS_OF_A_BRACKET * sum(text.count("[") for text, _ in runs))
        found = patterns.tokens(runs)
        if found is None:
            raise UnknownError(opens)
        return found

    def number(self, start: int, end: int) -> tuple[int, tuple[Open, ...]]:
        """The value of an expression, and what it rests on; raises UnknownError."""
        return self.value(self.text(self.reader.all(start, end, DOUBLE)), start)

    def value(self, word: Word, at: int) -> tuple[int, tuple[Open, ...]]:
        """The value of an expression that is expanded already."""
        opens = list(word.opens)
        if not word.known or len(word.text) > 10_000:
            raise UnknownError(opens)
        self.state.effort.spend(len(word.text) + 1)
        depth = 0

        def read(name: str, subscript: str | None) -> int:
            nonlocal depth
            variable = self.state.variables.get(name)
            if variable is None:
                opens.append(Open(name, "0" if self.empty else None, self.source.place(at, at)))
                if self.empty:
                    return 0
                raise UnknownError(opens)
            found = variable.values.get(self.key(variable, subscript or "0", at))
            if found is None:
                return 0
            opens.extend(found.opens)
            if not found.known:
                raise UnknownError(opens)
            depth += 1
            self.state.effort.spend(len(found.text) + 1)
            if depth > MOST_DEPTH:
                raise self.source.error(at, f"{name} stands for itself.")
            number = evaluated(found.text, read, write)
            depth -= 1
            return number

        def write(name: str, subscript: str | None, value: int) -> None:
            piece = Piece(str(value), None, None, tuple(dict.fromkeys(opens)))
            key = None
            if subscript is not None:
                key = self.key(self.state.variables.get(name, UNSET), subscript, at)
            self.state.assign(name, of_pieces([piece]), key)

        try:
            return evaluated(word.text, read, write), tuple(dict.fromkeys(opens))
        except ExpressionError as error:
            raise self.source.error(at, f"{word.text.strip()[:60]}: {error}") from error

    def key(self, variable: Variable, subscript: str, at: int) -> int | str:
        """The index of an array or the key of a map; raises UnknownError."""
        if subscript.isdigit() and variable.kind != "map" and len(subscript) < 10:
            return int(subscript)
        inner = Source(subscript, self.source.name)
        other = self._inside(inner)
        word = other.text(other.reader.all(0, len(subscript), "word"))
        if not word.known:
            raise UnknownError(word.opens)
        if variable.kind == "map":
            return word.text
        index, opens = self.value(word, at)
        if any(one.default is None for one in opens):
            raise UnknownError(opens)
        return index if index >= 0 else index + 1 + max(map(int, variable.values), default=0)

    def _inside(self, source: Source) -> Self:
        if self.depth > MOST_DEPTH:
            raise self.source.error(0, "expansions are nested too deeply to be read.")
        other = type(self)(source, self.state)
        other.depth, other.empty = self.depth + 1, self.empty
        return other
