"""A text that is read as shell, and where its characters stand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from planner.importer.given import Place, UnreadableError, Word

MOST_CHARACTERS = 120_000
MOST_DEPTH = 40
"""Of functions, sourced files and ``eval`` in each other, and of expansions in expansions."""


class Source:
    """A script, or a text in one that is read as shell again (``eval``, ``bash -c``)."""

    def __init__(self, text: str, name: str, origin: Word | None = None) -> None:
        self.text, self.name, self.origin = text, name, origin
        sizes = [len(piece.text) for piece in origin.pieces] if origin else []
        self._begins = list(accumulate(sizes[:-1], initial=0)) if sizes else []
        self._breaks = [at for at, one in enumerate(text) if one == "\n"]

    def place(self, start: int, end: int, forms: Sequence[str] = ()) -> Place | None:
        """Where these characters stand in a file; None where no file has them as they are."""
        if self.origin is None:
            line = bisect_right(self._breaks, start - 1) + 1
            return Place(self.name, line, start, end, tuple(forms))
        outer = self._inside(start, end) if start < end else self._behind(start)
        if outer is None or outer.end - outer.start != end - start:
            return None
        return Place(outer.file, outer.line, outer.start, outer.end, (*forms, *outer.forms))

    def _inside(self, start: int, end: int) -> Place | None:
        """A span of a text in a text, where one literal has it."""
        index = bisect_right(self._begins, start) - 1
        if index < 0 or self.origin is None:
            return None
        piece, begin = self.origin.pieces[index], self._begins[index]
        if end <= begin + len(piece.text):
            return piece.part(start - begin, end - begin).place
        return None

    def _behind(self, at: int) -> Place | None:
        """Between two characters of a text in a text: behind what gives the first of them."""
        begin = 0
        for piece in self.origin.pieces if self.origin else ():
            size = len(piece.text)
            if begin + size >= at and (size or not at):
                written = piece.written
                if written and written == piece.place and written.end - written.start == size:
                    middle = written.start + at - begin
                    return replace(written, start=middle, end=middle)
                return replace(written, start=written.end) if written else None
            begin += size
        return None

    def error(self, at: int, message: str) -> UnreadableError:
        """What to raise for something at ``at``."""
        place = self.place(at, at)
        return UnreadableError(self.name, place.line if place else 1, message)
