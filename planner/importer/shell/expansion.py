"""Words as the shell expands them, each run of characters with the literal that it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.importer.given import Open, Piece, Word, of_pieces
from planner.importer.shell import patterns
from planner.importer.shell.arithmetic import ExpressionError, evaluated
from planner.importer.shell.braces import alternatives
from planner.importer.shell.source import MOST_DEPTH, Source
from planner.importer.shell.variables import UNSET, State, Variable, resting
from planner.importer.shell.words import (
    BRACED,
    BRACED_DOUBLE,
    DOCUMENT,
    DOUBLE,
    QUOTED,
    Arithmetic,
    Literal,
    Parameter,
    Part,
    Raw,
    Reader,
)

STEPS_OF_A_BRACKET = 5

Chunk = tuple[Piece, bool, bool] | tuple[Word, None, None] | None
"""A piece, whether it is quoted and whether it is split; a whole word; None between two words."""


class UnknownError(Exception):
    """A value rests on what the text does not say."""

    def __init__(self, opens: Sequence[Open]) -> None:
        super().__init__()
        self.opens = tuple(opens)


class Expander:
    """Expands words of one source in a state."""

    def __init__(self, source: Source, state: State) -> None:
        self.source, self.state = source, state
        self.reader = Reader(source)
        self.empty = False
        """Whether variables from outside are taken as unset, as a condition takes them."""
        self.dropped: list[Open] = []
        """What words rest on that came to nothing: ``"$@"``, ``${x:-}`` of what nobody set."""
        self.depth = 0

    def words(self, raw: Raw) -> list[Word]:
        """The words that one written word becomes."""
        found: list[Word] = []
        for parts in alternatives(raw.parts, self.source):
            found.extend(self._fields(self._chunks(parts), raw))
        return found

    def text(self, raw: Raw) -> Word:
        """One word, nothing split: the value of an assignment, a here-document."""
        pieces: list[Piece] = []
        chunks = list(self._chunks(raw.parts))
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

    def document(self, start: int, end: int, quoted: bool) -> Word:
        """A here-document's text; of a quoted one nothing is expanded."""
        if quoted:
            place = self.source.place(start, end)
            return of_pieces([Piece(self._span(start, end), place, place)])
        return replace(self.text(self.reader.all(start, end, DOCUMENT)), written=None)

    def without_tabs(self, word: Word) -> Word:
        """As ``<<-`` has it: no tabs at the beginning of lines."""
        self.state.effort.spend(len(word.pieces) * word.text.count("\n"))
        pieces = [
            piece
            for found in re.finditer(r"(?m)^\t*(.*\n?)", word.text)
            if found.start(1) < found.end(1)
            for piece in word.part(found.start(1), found.end(1)).pieces
        ]
        return of_pieces(pieces)

    def runs(self, raw: Raw, opens: list[Open]) -> list[tuple[str, bool]]:
        """Runs of characters, each with whether it is quoted; raises UnknownError.

        What they rest on is added to ``opens``.
        """
        runs = list[tuple[str, bool]]()
        for chunk in self._chunks(raw.parts):
            if chunk is None:
                runs.append((" ", True))
            else:
                runs.append((chunk[0].text, bool(chunk[1])))
                opens.extend(chunk[0].opens)
        if any(one.default is None for one in opens):
            raise UnknownError(opens)
        return runs

    def pattern(self, raw: Raw, opens: list[Open] | None = None) -> tuple[patterns.Token, ...]:
        """A pattern; raises UnknownError where the text does not say it."""
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

    def _inside(self, source: Source) -> Expander:
        if self.depth > MOST_DEPTH:
            raise self.source.error(0, "expansions are nested too deeply to be read.")
        other = Expander(source, self.state)
        other.depth, other.empty = self.depth + 1, self.empty
        return other

    def _span(self, start: int, end: int) -> str:
        return self.source.text[start:end]

    def _chunks(self, parts: Sequence[Part]) -> Iterator[Chunk]:
        for chunk in self._given_by(parts):
            if chunk is not None:
                several = len(chunk[0].pieces) if isinstance(chunk[0], Word) else 1
                self.state.effort.spend(several + len(chunk[0].text) // 16)
            yield chunk

    def _given_by(self, parts: Sequence[Part]) -> Iterator[Chunk]:
        for index, part in enumerate(parts):
            if isinstance(part, Literal):
                place = None
                if part.form:
                    place = self.source.place(part.start, part.end, (part.form,))
                written = place or self.source.place(part.start, part.end, ("word",))
                if not index and not part.quoted and re.match(r"~(/|$)", part.text):
                    home = Open("HOME", "~", place)
                    yield Piece(part.text, place, written, (home,)), False, False
                else:
                    yield Piece(part.text, place, written), part.quoted, part.form == BRACED
                continue
            written = self.source.place(part.start, part.end, (part.form,))
            quoted = part.form in QUOTED
            if isinstance(part, Parameter):
                yield from self._parameter(part, quoted)
                continue
            shown = self._span(part.start, part.end)
            if isinstance(part, Arithmetic):
                try:
                    number, opens = self.number(*part.inner)
                except UnknownError as error:
                    yield Piece(shown, None, written, error.opens), True, False
                else:
                    yield Piece(str(number), None, written, opens), quoted, False
            elif not re.fullmatch(r"(?:`|\$\()\s*(?:#[^\n]*)?(?:`|\n\s*\))", shown):
                one = Open(shown[:200], None, written)
                yield Piece(shown, None, written, (one,)), True, False

    def _parameter(self, part: Parameter, quoted: bool) -> Iterator[Chunk]:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self.source.error(part.start, "expansions are nested too deeply to be read.")
        try:
            found, many = self._values(part)
            yield from self._operated(part, found, many, quoted)
        except UnknownError as error:
            yield from self._left(part, error.opens)
        self.depth -= 1

    def _left(self, part: Parameter, opens: Sequence[Open]) -> Iterator[Chunk]:
        """The expansion as it is written, since its value is not known."""
        written = self.source.place(part.start, part.end, (part.form,))
        yield Piece(self._span(part.start, part.end), None, written, tuple(opens)), True, False

    def _open(self, part: Parameter, default: str | None = None) -> Open:
        name = part.name
        if name.isdigit():
            name = f"${int(name) + self.state.shifted if name != '0' else 0}"
        elif not name[0].isalpha() and name[0] != "_":
            name = f"${name}"
        return Open(name, default, self.source.place(part.start, part.end, (part.form,)))

    def _values(self, part: Parameter) -> tuple[list[Word] | None, bool]:
        """Values, and whether they are several words; None: nobody set it, and it is open.

        An empty list is a variable that the script itself left unset.
        """
        state, name = self.state, part.name
        if name in ("@", "*"):
            if state.more_arguments:
                place = self.source.place(part.start, part.end, (part.form,))
                self.dropped.append(Open("$@", "", place))
            return list(state.arguments), True
        if name == "#":
            count = str(len(state.arguments))
            opens = (self._open(part, count),) if state.more_arguments else ()
            return [of_pieces([Piece(count, None, None, opens)])], False
        if name.isdigit() and name != "0":
            index = int(name[:9]) - 1
            if index < len(state.arguments):
                return [state.arguments[index]], False
            return (None if state.more_arguments else []), False
        variable = state.variables.get(name)
        if variable is None:
            return None, part.subscript in ("@", "*")
        if part.subscript in ("@", "*"):
            indices = sorted(key for key in variable.values if isinstance(key, int))
            names = [key for key in variable.values if isinstance(key, str)]
            keys: list[int | str] = [*indices, *names]
            if part.operator.startswith("!"):
                return [of_pieces([Piece(str(key), None)]) for key in keys], True
            return [variable.values[key] for key in keys], True
        key = self.key(variable, part.subscript or "0", part.start)
        return [variable.values[key]] if key in variable.values else [], False

    def _operated(
        self, part: Parameter, found: list[Word] | None, many: bool, quoted: bool
    ) -> Iterator[Chunk]:
        operator = part.operator
        if operator == "!" and not many:
            if not found or not found[0].known or not re.fullmatch(r"\w+", found[0].text):
                raise UnknownError(found[0].opens if found else (self._open(part),))
            name = replace(part, name=found[0].text, operator="", subscript=None)
            values, several = self._values(name)
            if values is None:
                raise UnknownError((self._open(name),))
            yield from self._given(name, values, several, quoted)
            return
        if operator.endswith("*"):
            raise UnknownError((self._open(part),))
        if operator.lstrip(":") in ("-", "=", "+", "?") and operator not in ("", ":"):
            yield from self._conditional(part, found, many, quoted)
            return
        if found is None:
            if not self.empty:
                raise UnknownError((self._open(part),))
            written = self.source.place(part.start, part.end, (part.form,))
            piece = Piece("", None, written, (self._open(part, ""),))
            found, many = [of_pieces([piece])], False
        if operator == "length":
            if many:
                count = str(len(found))
            else:
                self._known(found)
                count = str(len(found[0].text)) if found else "0"
            opens = () if many else tuple(one for word in found for one in word.opens)
            piece = Piece(count, None, self.source.place(part.start, part.end, (part.form,)), opens)
            yield piece, quoted, not quoted
            return
        if operator and not operator.startswith("!"):
            self._known(found)
            if operator == ":" and many:
                found = self._slice(part, found)
            else:
                found = [self._changed(part, word) for word in found]
                if operator[0] not in "#%":
                    found = [_computed(word) for word in found]
        yield from self._given(part, found, many, quoted)

    def _known(self, words: Sequence[Word]) -> None:
        if any(not word.known for word in words):
            raise UnknownError([one for word in words for one in word.opens])

    def _given(
        self, part: Parameter, found: Sequence[Word], many: bool, quoted: bool
    ) -> Iterator[Chunk]:
        written = self.source.place(part.start, part.end, (part.form,))
        if not many:
            if not found:
                yield Piece("", None, written), quoted, not quoted
            for word in found:
                for piece in word.pieces or (Piece("", word.place),):
                    known = word.known or all(one.default is not None for one in piece.opens)
                    shown = Piece(piece.text, piece.place, written, piece.opens)
                    yield shown, quoted or not known, not quoted and known
            return
        star = quoted and (part.name == "*" or part.subscript == "*")
        separator = self._separators()[:1] if star else ""
        for index, word in enumerate(found):
            if index and star:
                yield Piece(separator, None, written), True, False
            elif index:
                yield None
            if star or not quoted:
                for piece in word.pieces:
                    yield piece, quoted, not quoted and word.known
            else:
                yield word, None, None
        if not found and star:
            yield Piece("", None, written), True, False

    def _conditional(
        self, part: Parameter, found: list[Word] | None, many: bool, quoted: bool
    ) -> Iterator[Chunk]:
        colon, kind = part.operator.startswith(":"), part.operator[-1]
        outside = found is None and not (many and part.subscript)
        missing = not found or (colon and not many and found[0].text == "")
        if found and colon and not many:
            self._known(found)
        if kind == "+":
            if outside:
                piece = Piece("", None, self.source.place(part.start, part.end, (part.form,)))
                yield replace(piece, opens=(self._open(part, ""),)), quoted, not quoted
            elif missing:
                yield Piece("", None, None), quoted, not quoted
            else:
                yield from self._argument(part, ())
            return
        if not missing and found is not None:
            yield from self._given(part, found, many, quoted)
            return
        if kind == "?":
            raise UnknownError((self._open(part),))
        raw = self._argument_raw(part)
        word = self.text(raw)
        opens: tuple[Open, ...] = ()
        if outside:
            one = self._open(part, word.text if word.known else None)
            opens = (replace(one, place=word.place or one.place),)
        if kind == "=":
            if part.name.isdigit() or not part.name.isidentifier():
                raise UnknownError((self._open(part),))
            self.state.assign(part.name, resting(word, opens))
            yield from self._given(part, [resting(word, opens)], False, quoted)
        else:
            yield from self._argument(part, opens)

    def _argument_raw(self, part: Parameter) -> Raw:
        form = BRACED_DOUBLE if part.form in QUOTED else BRACED
        return self.reader.all(*part.argument, form)

    def _argument(self, part: Parameter, opens: tuple[Open, ...]) -> Iterator[Chunk]:
        """What stands behind ``:-`` or ``:+``."""
        written = self.source.place(part.start, part.end, (part.form,))
        raw = self._argument_raw(part)
        if not raw.parts:
            place = self.source.place(*part.argument, (BRACED,))
            quoted = part.form in QUOTED
            yield Piece("", place, written, opens), quoted, not quoted
        for chunk in self._chunks(raw.parts):
            if chunk is None:
                yield None
            elif isinstance(chunk[0], Word):
                yield resting(chunk[0], opens), None, None
            else:
                every = tuple(dict.fromkeys((*chunk[0].opens, *opens)))
                yield replace(chunk[0], opens=every, written=written), chunk[1], chunk[2]

    def _slice(self, part: Parameter, found: list[Word]) -> list[Word]:
        """``${@:2}`` and ``${a[@]:1:3}``."""
        first, count = self._bounds(part)
        if part.name in ("@", "*"):
            first -= 1 if first > 0 else 0
        first = first if first >= 0 else max(len(found) + first, 0)
        return found[first:] if count is None else found[first : first + max(count, 0)]

    def _bounds(self, part: Parameter) -> tuple[int, int | None]:
        start, end = part.argument
        raw = self.reader.all(start, end, DOUBLE, frozenset(":"))
        first, _ = self.value(self.text(raw), start)
        if raw.end >= end:
            return first, None
        count, _ = self.number(raw.end + 1, end)
        return first, count

    def _changed(self, part: Parameter, word: Word) -> Word:
        """A value behind ``#``, ``%``, ``/``, ``^``, ``,`` or ``:``."""
        operator, text = part.operator, word.text
        size = len(text)
        self.state.effort.spend(len(word.pieces) // 16)
        if operator == ":":
            first, count = self._bounds(part)
            first = first if first >= 0 else size + first
            if not 0 <= first <= size:
                return word.part(size, size) if size else word
            last = size if count is None else first + count if count >= 0 else size + count
            return word.part(first, max(first, min(last, size)))
        if operator[0] in "^,":
            return self._cased(part, word)
        if operator[0] == "@":
            raise UnknownError((*word.opens, self._open(part)))
        stops = frozenset("/" if operator[0] == "/" else "")
        raw = self.reader.all(*part.argument, BRACED, stops)
        pattern = self.pattern(raw)
        self.state.effort.spend((len(pattern) + 1) * (size + 1) // 4)
        if operator[0] == "#":
            found = patterns.ends(pattern, text)
            return word.part(found[-1] if operator == "##" else found[0]) if found else word
        if operator[0] == "%":
            found = patterns.ends(_reversed(pattern), text[::-1])
            taken = (found[-1] if operator == "%%" else found[0]) if found else 0
            return word.part(0, size - taken) if found else word
        instead: tuple[Piece, ...] = ()
        if raw.end < part.argument[1]:
            instead = self.text(self.reader.all(raw.end + 1, part.argument[1], BRACED)).pieces
        return self._replaced(part, word, pattern, instead)

    def _replaced(
        self,
        part: Parameter,
        word: Word,
        pattern: tuple[patterns.Token, ...],
        instead: tuple[Piece, ...],
    ) -> Word:
        operator, text = part.operator, word.text
        pieces, at, kept = list[Piece](), 0, 0
        while at <= len(text):
            looked = len(text) - at if patterns.STAR in pattern else len(pattern)
            self.state.effort.spend((len(pattern) + 1) * (looked + 1) // 4 + 1)
            if operator == "/%":
                found = [one for one in patterns.ends(pattern, text, at) if one == len(text)]
            else:
                found = patterns.ends(pattern, text, at)
            if found and (found[-1] > at or (operator in ("/#", "/%"))):
                if kept < at:
                    pieces.extend(word.part(kept, at).pieces)
                pieces.extend(replace(one, opens=(*one.opens, *word.opens)) for one in instead)
                at = kept = found[-1]
                if operator != "//":
                    break
                continue
            if operator == "/#":
                break
            at += 1
        if not kept and not pieces:
            return word
        if kept < len(text):
            pieces.extend(word.part(kept).pieces)
        return of_pieces(pieces or [Piece("", None, None, word.opens)])

    def _cased(self, part: Parameter, word: Word) -> Word:
        raw = self.reader.all(*part.argument, BRACED)
        pattern = self.pattern(raw) or (patterns.ANY,)
        act = str.upper if part.operator[0] == "^" else str.lower
        upto = len(word.text) if len(part.operator) == 2 else 1
        self.state.effort.spend(len(word.text) * (len(pattern) + 1))
        text = "".join(
            act(one) if at < upto and patterns.matches(pattern, one) else one
            for at, one in enumerate(word.text)
        )
        return word if text == word.text else of_pieces([Piece(text, None, None, word.opens)])

    def _separators(self) -> str:
        found = self.state.variables.get("IFS")
        if found is None:
            return " \t\n"
        separators = found.values[0].text if found.values else " \t\n"
        self.state.effort.spend(len(separators) // 16)
        return separators

    def _fields(self, chunks: Iterator[Chunk], raw: Raw) -> list[Word]:
        """Chunks cut into words where unquoted values have blanks."""
        done: list[Word] = []
        current: list[Piece] | None = None
        whole: Word | None = None
        written = self.source.place(raw.start, raw.end, ("word",))
        separators = self._separators()

        def cut(last: bool = False) -> None:
            nonlocal current, whole
            if current is not None:
                only = written if last and not done else None
                done.append(whole or of_pieces(current, only))
                self.state.effort.spend(1 + len(done[-1].text) // 8)
            current = whole = None

        for chunk in chunks:
            if chunk is None:
                cut()
            elif isinstance(chunk[0], Word):
                whole = chunk[0] if current is None else None
                current = [] if current is None else current
                current.extend(chunk[0].pieces)
            elif not chunk[2]:
                piece = chunk[0]
                whole = None
                if piece.text or chunk[1]:
                    current = [] if current is None else current
                    current.append(piece)
            else:
                piece, at = chunk[0], 0
                if not piece.text:
                    self.dropped.extend(piece.opens)
                for found in _splits(piece.text, separators):
                    if found.start() > at or (found[0].strip() and current is None):
                        whole = None
                        current = [] if current is None else current
                        current.append(piece.part(at, found.start()))
                    cut()
                    at = found.end()
                if at < len(piece.text):
                    whole = None
                    current = [] if current is None else current
                    current.append(piece.part(at, len(piece.text)))
        cut(last=True)
        return done


def _splits(text: str, separators: str) -> Iterator[re.Match[str]]:
    """Where a value is cut: runs of blanks, or another separator with the blanks around it."""
    blank = re.escape("".join(one for one in separators if one in " \t\n"))
    other = re.escape("".join(one for one in separators if one not in " \t\n"))
    forms = []
    if other:
        forms.append(f"[{blank}]*[{other}][{blank}]*" if blank else f"[{other}]")
    if blank:
        forms.append(f"[{blank}]+")
    return re.finditer("|".join(forms), text) if forms else iter(())


def _computed(word: Word) -> Word:
    """The word without places: a value in place of its literal would not come through."""
    return of_pieces([replace(piece, place=None) for piece in word.pieces])


def _reversed(pattern: tuple[patterns.Token, ...]) -> tuple[patterns.Token, ...]:
    return pattern[::-1]
