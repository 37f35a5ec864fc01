"""Parts of a shell text's words as they are written, each with its span."""

from __future__ import annotations

from dataclasses import dataclass, field

BARE, SINGLE, DOUBLE, BRACED, BRACED_DOUBLE, DOCUMENT = "word", "'", '"', "{", '"{', "<<"
"""How a literal is written, which is also how a new one is written in its place."""
QUOTED = frozenset((DOUBLE, BRACED_DOUBLE, DOCUMENT))


@dataclass(frozen=True, slots=True)
class Literal:
    """Characters that stand for themselves; ``form`` is how they are written."""

    start: int
    end: int
    text: str
    form: str
    """Empty: computed."""
    quoted: bool
    """Whether it is neither split nor a pattern."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """``$name`` or ``${name[subscript]operator…}``, its argument as a span."""

    start: int
    end: int
    form: str
    name: str
    subscript: str | None = None
    operator: str = ""
    argument: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``$((…))``: the span of what is between."""

    start: int
    end: int
    form: str
    inner: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Substitution:
    """A command or process substitution. It is never run, so its value is open."""

    start: int
    end: int
    form: str


Part = Literal | Parameter | Arithmetic | Substitution


@dataclass(frozen=True, slots=True)
class Raw:
    """A word as it is written."""

    start: int
    end: int
    parts: tuple[Part, ...]

    @property
    def literal(self) -> str | None:
        """Its text where it has no expansion."""
        if all(isinstance(part, Literal) for part in self.parts):
            return "".join(part.text for part in self.parts if isinstance(part, Literal))
        return None


@dataclass(frozen=True, slots=True)
class Assignment:
    """``name=value``, ``name[subscript]=value``, ``name+=(…)``."""

    name: str
    subscript: str | None
    append: bool
    value: Raw | tuple[Assignment | Raw, ...]


@dataclass(slots=True)
class Command:
    """A simple command as it is written."""

    start: int
    end: int = 0
    assignments: list[Assignment] = field(default_factory=list)
    words: list[Raw | Assignment] = field(default_factory=list)
    redirects: list[tuple[str, Raw]] = field(default_factory=list)
