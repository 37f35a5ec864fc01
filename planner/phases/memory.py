"""What is made once: for several instants of a scene, and for the scenes of a sweep over choices.

A sweep over choices (logits, optimizer, card …) builds one scene per combination, and most of what
a scene is made of depends on few of them. While something is made, what it reads of the choices is
noted; the next scene that would read the same values is given the same thing. Nothing is said by
hand: what a bundle depends on is what it was seen to read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

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


class Branch:
    """The next name that is read, and what follows each value of it."""

    __slots__ = ("name", "next")

    def __init__(self, name: Name) -> None:
        self.name = name
        self.next: dict[Hashable, Branch | Leaf] = {}


class Past:
    """What earlier scenes of a sweep have made, by what they had read."""

    def __init__(self) -> None:
        self._roots: dict[Hashable, Branch | Leaf] = {}

    def find(self, key: Hashable, memory: Memory) -> Leaf | None:
        """What was made of the values that a scene has now; None where nothing was."""
        node = self._roots.get(key)
        while type(node) is Branch:
            node = node.next.get(memory.value(node.name))
        return node  # type: ignore[return-value]

    def keep(self, key: Hashable, leaf: Leaf, memory: Memory) -> None:
        """Keeps what was made; not where its reads came in another order than before."""
        names = list(leaf.reads)
        if not names:
            self._roots.setdefault(key, leaf)
            return
        node = self._roots.setdefault(key, Branch(names[0]))
        for name, following in zip(names, [*names[1:], None], strict=True):
            if type(node) is not Branch or node.name != name:
                return
            new = leaf if following is None else Branch(following)
            node = node.next.setdefault(memory.value(name), new)


class Memory:
    """What one scene of a sweep has made, what it is seen to read, and the past that it shares."""

    __slots__ = ("_known", "_past", "_reading", "_values", "read")

    def __init__(
        self,
        past: Past | None,
        reading: list[Reads] | None = None,
    ) -> None:
        """``reading`` is what is being made at the moment, innermost last."""
        self._known: dict[Hashable, Leaf] = {}
        self._past = past
        self.read: Callable[[Name], Hashable]
        """What a name's value has in common with others' (:func:`token`)."""
        self._reading: list[Reads] = [] if reading is None else reading
        self._values: dict[Name, Hashable] = {}

    def beside(self) -> Memory:
        """That of a scene made from this one, which no other scene of a sweep has again."""
        found = Memory(None, self._reading)
        found.read = self.read
        return found

    def note(self, name: Name) -> None:
        """What is being made has read this."""
        if self._reading:
            self._reading[-1][name] = None

    def value(self, name: Name) -> Hashable:
        """The scene's value of a name."""
        found = self._values.get(name)
        if found is None:
            found = self._values[name] = self.read(name)
        return found

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
            past = self._past if shares else None
            found = past.find(key, self) if past is not None else None
            if found is None:
                found = self._made(make)
                if past is not None:
                    past.keep(key, found, self)
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
    """Bundles and instants among what something is made of are told apart by being the same."""
    bundle = type(given) is tuple and given and not isinstance(given[0], str)
    return Same(given) if bundle else given


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
