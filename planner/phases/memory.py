"""What is made once: for several instants of a scene, and for the scenes of a sweep over choices.

A sweep over choices (logits, optimizer, card …) builds one scene per combination, and most of what
a scene is made of depends on few of them. While something is made, what it reads of the choices is
noted; the next scene that would read the same values is given the same thing. Nothing is said by
hand: what a bundle depends on is what it was seen to read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Hashable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from planner.term import Standing

Name = tuple[str, ...]
"""What is read: a source (``plan``, ``facts`` …), and its part."""
Reads = dict[Name, None]
"""Names in the order in which they were first read."""


class Same:
    """An object that is equal to itself alone, kept so that no other can take its place."""

    __slots__ = ("of",)

    def __init__(self, of: object) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


def token(value: Any) -> Hashable:
    """What two values have in common exactly if they are as good as each other."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, str | int | float | frozenset | None):
        return type(value), value
    return Same(value)


class Leaf(NamedTuple):
    """Something that was made, and what it had read by then."""

    made: Any
    reads: Reads


Ways = dict[tuple[Name, ...], dict[Hashable, Leaf]]
"""Cached results of one key: by the names that they depend on, then by the values of those."""


Past = defaultdict[Hashable, Ways]
"""What earlier scenes of a sweep have made; begins as ``defaultdict(dict)``."""


class Values(dict[Name, Hashable]):
    """What a scene's values of names have in common with others' (:func:`token`)."""

    __slots__ = ("read",)
    read: Callable[[Name], Hashable]

    def __missing__(self, name: Name) -> Hashable:
        found = self[name] = self.read(name)
        return found


class Memory:
    """What one scene of a sweep has made, what it is seen to read, and the past that it shares."""

    __slots__ = ("_known", "_past", "_reading", "values")

    def __init__(
        self,
        past: Past | None,
        reading: list[Reads] | None = None,
    ) -> None:
        """``reading`` is what is being made at the moment, innermost last."""
        self._known: dict[Hashable, Leaf] = {}
        self._past = past
        self._reading: list[Reads] = [] if reading is None else reading
        self.values = Values()

    def beside(self) -> Memory:
        """That of a scene made from this one, which no other scene of a sweep has again."""
        found = Memory(None, self._reading)
        found.values.read = self.values.read
        return found

    def note(self, name: Name) -> None:
        """What is being made has read this."""
        if self._reading:
            self._reading[-1][name] = None

    def ask(
        self, key: tuple[Hashable, ...], make: Callable[[], Any], *, shares: bool = True
    ) -> Any:
        """What a key stands for, made when no scene has made it of the same values yet.

        ``shares``: it depends on nothing but the key and what is read meanwhile.
        """
        return self.leaf(key, make, shares=shares).made

    def leaf(
        self, key: tuple[Hashable, ...], make: Callable[[], Any], *, shares: bool = True
    ) -> Leaf:
        """The same, and what it has read."""
        found = self._known.get(key)
        if found is None:
            ways: Ways = self._past[key] if shares and self._past is not None else {}
            read = self.values.__getitem__
            for names, known in ways.items():
                if (found := known.get(tuple(map(read, names)))) is not None:
                    break
            else:
                found = self._made(make)
                names = tuple(found.reads)
                ways.setdefault(names, {})[tuple(map(read, names))] = found
            self._known[key] = found
        if self._reading:
            self._reading[-1].update(found.reads)
        return found

    def _made(self, make: Callable[[], Any]) -> Leaf:
        self._reading.append({})
        try:
            made = make()
        finally:
            reads = self._reading.pop()
        return Leaf(made, reads)


def key_of(given: Any) -> Hashable:
    """Terms and instants among what something is made of are told apart by being the same."""
    if type(given) is tuple:
        return tuple(map(key_of, given))
    # What stands at a moment is a name, whoever says it.
    named = not isinstance(given, tuple) or isinstance(given, Standing)
    return given if named else Same(given)


def beside(memory: dict[Any, Any] | Memory) -> dict[Any, Any] | Memory:
    """That of a scene made from one with this memory."""
    return memory.beside() if isinstance(memory, Memory) else {}


class Watched:
    """Reads like an object; its methods and properties read what is watched, too."""

    __slots__ = ("_memory", "_names", "_of", "_varying")

    def __init__(
        self, of: Any, memory: Memory, *names: str, varying: Container[str] | None = None
    ) -> None:
        """``names`` are what its parts are noted under; ``varying`` the parts noted, None: all."""
        self._of, self._memory, self._names, self._varying = of, memory, names, varying

    def __getattr__(self, part: str) -> Any:
        of = self._of
        kind = getattr(type(of), part, None)
        if type(kind) is property:
            return kind.fget(self)  # type: ignore[misc]
        if type(kind) is FunctionType:
            return kind.__get__(self)
        if self._varying is None or part in self._varying:
            self._memory.note((*self._names, part))
        return getattr(of, part)

    def __eq__(self, other: object) -> bool:
        return bool(whole(self) == whole(other))

    def __hash__(self) -> int:
        return hash(whole(self))


def whole(of: Any) -> Any:
    """What is watched, all of which counts as read; anything else as it is."""
    if not isinstance(of, Watched):
        return of
    if of._varying is None or of._varying:
        of._memory.note(of._names)
    return of._of
