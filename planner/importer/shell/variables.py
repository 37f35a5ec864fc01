"""What a script has said so far: its variables, arguments, functions and the files it wrote."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from planner.importer.effort import Effort
from planner.importer.given import Open, Piece, Place, Word, of_pieces


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: one value under 0, or those of an array by index, of a map by key."""

    values: dict[int | str, Word]
    kind: str = "one"
    """``one``, ``array``, ``map``."""
    exported: bool = False


UNSET = Variable({})
"""Of a name that the script unset, which is therefore not open."""


@dataclass(slots=True)
class State:
    """All that a subshell copies."""

    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    arguments: list[Word] = field(default_factory=list)
    more_arguments: bool = True
    """Whether the caller may have given more than the text says: ``"$@"`` is open."""
    shifted: int = 0
    files: dict[str, Word] = field(default_factory=dict)
    under: tuple[Open, ...] = ()
    """What it rests on whether this statement is reached."""
    noted: tuple[Open, ...] = ()
    """What every command from here on rests on."""
    passed: frozenset[str] = frozenset()
    """Names that are exported and have no value yet: what comes from outside goes on."""
    exports: bool = False
    """``set -a``: whatever is assigned is exported."""
    effort: Effort = field(default_factory=Effort)

    def copied(self) -> State:
        """For a subshell, or to come back to."""
        self.effort.spend(len(self.variables) // 8)
        return replace(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            arguments=list(self.arguments),
            files=dict(self.files),
        )

    def restore(self, before: State) -> None:
        """Be as ``before`` again, but for the effort."""
        self.variables, self.functions = before.variables, before.functions
        self.arguments, self.more_arguments = before.arguments, before.more_arguments
        self.shifted, self.files = before.shifted, before.files
        self.under, self.noted, self.passed = before.under, before.noted, before.passed

    def assign(
        self, name: str, value: Word, key: int | str | None = None, append: bool = False
    ) -> None:
        """Set a variable, or one element."""
        old = self.variables.get(name, UNSET)
        at = key if key is not None else next(iter(old.values), 0) if old.kind == "one" else 0
        if append and (before := old.values.get(at)):
            self.effort.spend(len(before.pieces) // 4)
            value = of_pieces((*before.pieces, *value.pieces))
        value = resting(value, self.under)
        kind = old.kind if key is None or old.kind != "one" else "array"
        values: dict[int | str, Word] = {at: value} if kind == "one" else {**old.values, at: value}
        exported = old.exported or self.exports or name in self.passed
        self.variables[name] = Variable(values, kind, exported)

    def environment(self) -> dict[str, Word]:
        """What a command sees."""
        self.effort.spend(len(self.variables) // 8)
        return {
            name: variable.values[0]
            for name, variable in self.variables.items()
            if variable.exported and variable.kind == "one" and variable.values
        }

    def passing(self) -> dict[str, Word]:
        """What a command sees besides, whose values come from outside."""
        names = sorted(self.passed - {*self.variables})
        self.effort.spend(len(names) // 8)
        return {name: open_word(name, None) for name in names}

    def note(self, opens: Iterable[Open]) -> None:
        """All that follows rests on these."""
        self.noted = tuple(dict.fromkeys((*self.noted, *opens)))


def resting(word: Word, opens: tuple[Open, ...]) -> Word:
    """The word with what else it rests on."""
    if not opens:
        return word
    pieces = [replace(one, opens=tuple(dict.fromkeys((*one.opens, *opens)))) for one in word.pieces]
    made = of_pieces(pieces, word.written)
    return replace(made, place=word.place, opens=tuple(dict.fromkeys((*word.opens, *opens))))


def open_word(name: str, place: Place | None, default: str | None = None) -> Word:
    """What the text does not say, as ``$name``; or its default."""
    one = Open(name, default, place)
    shown = default if default is not None else f"${name.lstrip('$')}"
    return of_pieces([Piece(shown, None, place, (one,))], place)
