"""``$x``, ``${x:-…}``, ``${a[@]}``: what a parameter gives, by its operator."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.importer.given import Open, Piece, Word, of_pieces
from planner.importer.shell import changes, fields
from planner.importer.shell.evaluation import Chunk, Evaluator, UnknownError
from planner.importer.shell.parts import BRACED, BRACED_DOUBLE, QUOTED, Parameter, Raw
from planner.importer.shell.source import MOST_DEPTH
from planner.importer.shell.variables import resting


class Parameters(Evaluator, ABC):
    """Expands parameters; what stands behind their operators is expanded as words are."""

    def parameter(self, part: Parameter, quoted: bool) -> Iterator[Chunk]:
        """What a parameter expands to; as it is written where that is not known."""
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
        shown = self.source.text[part.start : part.end]
        yield Piece(shown, None, written, tuple(opens)), True, False

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
            if operator[0] == "@" and found:
                raise UnknownError((*found[0].opens, self._open(part)))
            if operator == ":" and many:
                found = changes.sliced(self, part, found)
            else:
                found = [changes.changed(self, part, word) for word in found]
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
        separator = fields.separators(self.state)[:1] if star else ""
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
        for chunk in self.chunks(raw.parts):
            if chunk is None:
                yield None
            elif isinstance(chunk[0], Word):
                yield resting(chunk[0], opens), None, None
            else:
                every = tuple(dict.fromkeys((*chunk[0].opens, *opens)))
                yield replace(chunk[0], opens=every, written=written), chunk[1], chunk[2]


def _computed(word: Word) -> Word:
    """The word without places: a value in place of its literal would not come through."""
    return of_pieces([replace(piece, place=None) for piece in word.pieces])
