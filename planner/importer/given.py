"""What a person's text gives: values with their places, and the commands that they are given to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any


class UnreadableError(ValueError):
    """A text that is not read: over a bound, or not what its format allows; says what to do."""

    def __init__(self, file: str, line: int, message: str) -> None:
        super().__init__(f"{file}, line {line}: {message}")
        self.file, self.line = file, line


def bounded(text: str, name: str, most_characters: int) -> None:
    """Refuse a text that is larger than anything written by hand."""
    if len(text) > most_characters:
        raise UnreadableError(
            name,
            1,
            f"{len(text):,} characters are more than the {most_characters:,} that are read. "
            "Give the part that starts the run.",
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A span of a file: what a diff replaces."""

    file: str
    line: int
    """Counted from 1."""
    start: int
    """Characters before it in the file."""
    end: int
    forms: tuple[str, ...] = ()
    """How a text is written there, innermost first (``edited.py`` has them): inside quotes, as
    YAML inside a here-document. Empty: as it is."""


@dataclass(frozen=True, slots=True)
class Open:
    """A value that the text leaves to its surroundings: ``$NODES``, ``$(nproc)``, ``${x:-y}``."""

    name: str
    """The variable, or the substitution as it is written."""
    default: str | None = None
    """What the text itself says for want of one, which is then the value."""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """A setting as it is written, under the framework's own name."""

    name: str
    value: Any
    """A string where the text has words (shell), else what the file's format makes of it."""
    place: Place | None = None
    """The literal that decides it: of a variable, where that is assigned. None: more than one."""
    opens: tuple[Open, ...] = ()
    """What it rests on that the text does not say."""
    copies: tuple[Place, ...] = ()
    """Where a file beside says the same, which has to change with it."""
    entries: tuple[Given, ...] = ()
    """Of a mapping that is written in one place, each with its own."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of a word's characters that one thing in the text gives."""

    text: str
    place: Place | None
    """The literal that has them. None: they are computed, or nowhere."""
    written: Place | None = None
    """Where the word itself has them, or the expansion that gives them."""
    opens: tuple[Open, ...] = ()

    def part(self, start: int, end: int) -> Piece:
        """Some of its characters; of a literal that is written in other characters, no place."""
        if start == 0 and end == len(self.text):
            return self
        place = self.place
        if place and place.end - place.start != len(self.text):
            place = None
        elif place:
            line, begin = place.line + self.text.count("\n", 0, start), place.start
            place = Place(place.file, line, begin + start, begin + end, place.forms)
        written = place if self.written == self.place else self.written
        return Piece(self.text[start:end], place, written, self.opens)


@dataclass(frozen=True, slots=True)
class Word:
    """An argument of a command, expanded as the shell would."""

    text: str
    place: Place | None = None
    """The literal that decides all of it; None where several do."""
    opens: tuple[Open, ...] = ()
    pieces: tuple[Piece, ...] = ()
    written: Place | None = None
    """Where the word itself stands, to be replaced as a whole."""

    @property
    def known(self) -> bool:
        """Whether the text says it: nothing in it is open without a default."""
        return all(one.default is not None for one in self.opens)

    def part(self, start: int, end: int | None = None) -> Word:
        """Some of its characters, as what follows ``key=``, with the place of these alone."""
        end = len(self.text) if end is None else end
        found, at, behind = list[Piece](), 0, list[Piece]()
        pieces = self.pieces or (Piece(self.text, self.place, self.written, self.opens),)
        for piece in pieces:
            first, last = max(start, at), min(end, at + len(piece.text))
            if first < last or start == end == at == last:
                found.append(piece.part(first - at, last - at))
            elif first == last == start == end and not behind:
                behind.append(piece.part(first - at, last - at))
            at += len(piece.text)
        return of_pieces(found or behind)


def of_pieces(pieces: Sequence[Piece], written: Place | None = None) -> Word:
    """A word of these; ``written`` is where it stands, else that follows from theirs."""
    if len(pieces) == 1:
        one = pieces[0]
        return Word(one.text, one.place, one.opens, (one,), written or one.written)
    opens = tuple(dict.fromkeys(one for piece in pieces for one in piece.opens))
    place = _together([piece.place for piece in pieces])
    own = [piece.written for piece in pieces]
    if written and not place and all(piece.place == piece.written for piece in pieces):
        place = written
    written = written or _together(own)
    return Word("".join(piece.text for piece in pieces), place, opens, tuple(pieces), written)


def _together(places: Sequence[Place | None]) -> Place | None:
    """The one span that these make: one after the other, and written in one way."""
    known = [one for one in places if one]
    if not known or len(known) < len(places):
        return None
    alike = all(one.forms == known[0].forms and one.file == known[0].file for one in known)
    if not alike or any(a.end != b.start for a, b in pairwise(known)):
        return None
    return replace(known[0], end=known[-1].end)


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that starts a program, taken out of its launchers."""

    program: str
    """A module (``verl.trainer.main_ppo``), a command's name (``trl grpo``), or a script's path."""
    arguments: tuple[Word, ...]
    launchers: tuple[tuple[str, tuple[Word, ...]], ...] = ()
    """Outermost first: ``sbatch`` with its header, ``torchrun``, ``accelerate launch``, ``uv run``;
    each with its own options."""
    environment: Mapping[str, Word] = field(default_factory=dict)
    """Variables that the command sees: exported, or assigned in front of it."""
    end: Place | None = None
    """Where a further argument can be written."""
    files: Mapping[str, Word] = field(default_factory=dict)
    """Files that the script itself writes before, by path; what it gives to stdin is ``-``."""
    opens: tuple[Open, ...] = ()
    """What the command as a whole rests on and the text does not say: the script's own arguments,
    a condition that it stands under, a file that is sourced and not here."""
    unread: tuple[Place, ...] = ()
    """Parts of the text that could not be read."""


@dataclass(frozen=True, slots=True)
class Further:
    """How a run is given one more setting: as words of a command, or in one of its files.

    Nothing of it: no text that is here can say it.
    """

    words: tuple[str, ...] = ()
    of_launcher: bool = False
    """Whether they are options of what starts the program, such as ``accelerate launch``."""
    file: str = ""
    path: str = ""
    """Its name there, dotted where it nests; below a call's name in a Python script."""


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration file: its settings, nested names joined by dots."""

    givens: tuple[Given, ...]
    ends: Mapping[str, Place]
    """Where a further entry can be written, by the mapping's name; the whole file's is ""."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call in a Python script, which makes settings of its arguments."""

    name: str
    """As it is written: ``GRPOConfig``, ``AutoModel.from_pretrained``."""
    givens: tuple[Given, ...]
    """Arguments by name; those without one are named by their position, from ``0``."""
    end: Place | None = None
    """Where a further argument can be written."""


def lifted(document: Document, word: Word) -> Document:
    """A document that stands in a text (a here-document), with its places in the person's file.

    Args:
        document: what was read of ``word.text``.
        word: the text, as a launch's ``files`` have it.
    """
    givens = []
    for one in document.givens:
        opens = word.part(one.place.start, one.place.end).opens if one.place else ()
        givens.append(replace(one, place=_lifted(one.place, word), opens=(*one.opens, *opens)))
    ends = {name: _lifted(place, word) for name, place in document.ends.items()}
    return Document(tuple(givens), {name: place for name, place in ends.items() if place})


def _lifted(place: Place | None, word: Word) -> Place | None:
    outer = word.part(place.start, place.end).place if place else None
    if place is None or outer is None or outer.end - outer.start != place.end - place.start:
        return None
    return replace(outer, forms=(*place.forms, *outer.forms))
