"""Words as the shell expands them, each run of characters with the literal that it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.importer.given import Open, Piece, Word, of_pieces
from planner.importer.shell.braces import alternatives
from planner.importer.shell.evaluation import Chunk, UnknownError
from planner.importer.shell.fields import fields
from planner.importer.shell.parameters import Parameters
from planner.importer.shell.parts import (
    BRACED,
    DOCUMENT,
    QUOTED,
    Arithmetic,
    Literal,
    Parameter,
    Part,
    Raw,
)


class Expander(Parameters):
    """Expands words of one source in a state."""

    def words(self, raw: Raw) -> list[Word]:
        """The words that one written word becomes."""
        found: list[Word] = []
        written = self.source.place(raw.start, raw.end, ("word",))
        for parts in alternatives(raw.parts, self.source):
            found.extend(fields(self.chunks(parts), self.state, written, self.dropped))
        return found

    def document(self, start: int, end: int, quoted: bool) -> Word:
        """A here-document's text; of a quoted one nothing is expanded."""
        if quoted:
            place = self.source.place(start, end)
            return of_pieces([Piece(self.source.text[start:end], place, place)])
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

    def chunks(self, parts: Sequence[Part]) -> Iterator[Chunk]:
        """What parts of a word expand to; the work is counted."""
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
                yield from self.parameter(part, quoted)
                continue
            shown = self.source.text[part.start : part.end]
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
