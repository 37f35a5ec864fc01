"""Kinds of values that a trial's JSON may hold, whoever wrote it: bounded, finite, printable.

Imports pydantic only. A number that nobody measured is None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError


class Strict(BaseModel):
    """Frozen; unknown keys and values of another type are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def printable(text: str) -> str:
    """The text, if it is one line without control characters; ``ValueError`` otherwise."""
    if not text.isprintable():
        raise ValueError("holds characters that cannot be printed")
    return text


def printable_lines(text: str) -> str:
    """The text, if its lines are printable; ``ValueError`` otherwise."""
    if not all(line.isprintable() for line in text.replace("\t", " ").split("\n")):
        raise ValueError("holds characters that cannot be printed")
    return text


def shown(text: str, limit: int = 500, *, lines: bool = False, instead: str = " ") -> str:
    """Any text as :data:`Line` (or :data:`Lines`) allows it: cut, with unprintables replaced."""
    cut = text[-limit:] if lines else text[:limit]
    allowed = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in allowed else instead for c in cut)


Bytes = Annotated[int, Field(ge=0, le=2**53)]
SignedBytes = Annotated[int, Field(ge=-(2**53), le=2**53)]
Number = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
Signed = Annotated[float, Field(ge=-1e30, le=1e30, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Line = Annotated[str, Field(max_length=500), AfterValidator(printable)]
Text = Annotated[str, Field(max_length=2000), AfterValidator(printable)]
Lines = Annotated[str, Field(max_length=8000), AfterValidator(printable_lines)]
Link = Annotated[str, Field(max_length=64 * 1024), AfterValidator(printable)]
Identifier = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9\-]{5,63}$")]
Scalar = (
    bool
    | Annotated[int, Field(ge=-(2**63), le=2**63)]
    | Signed
    | Annotated[str, Field(max_length=8192), AfterValidator(printable)]
    | None
)
Values = Annotated[dict[Annotated[str, Field(max_length=100)], Scalar], Field(max_length=200)]


class JobRequest(Strict):
    """What every job is asked."""

    device: Annotated[str, Field(pattern=r"^(cpu|cuda:\d{1,3})$")] = "cpu"

    def devices(self) -> tuple[str, ...]:
        """Every device that is occupied."""
        return (self.device,)


class JobResult(Strict):
    """What every job ends with, in whatever way; the first field says which shape this is."""

    v: Literal[1] = 1
    id: Identifier
    status: Line
    reason: Text = ""
    """One sentence; empty when completed."""
    seconds: Seconds
    """All of it."""
    notes: Annotated[tuple[Text, ...], Field(max_length=60)] = ()
    stderr_tail: Lines = ""


@contextmanager
def in_a_sentence(whole: str = "") -> Iterator[None]:
    """Turns what a model refuses into ``ValueError``: a sentence that names the field.

    ``whole`` is named where it is no field's; without it such a reason stands alone.
    """
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(shown(str(part), 200, instead="?") for part in first["loc"]) or whole
        said = shown(first["msg"].removeprefix("Value error, "), 200, instead="?")
        sentence = f"{place}: {said[:1].lower()}{said[1:]}." if place else f"{said}."
        raise ValueError(sentence) from None


def refuse_constant(name: str) -> Any:
    """For :func:`json.loads`: NaN and infinities are no JSON."""
    raise ValueError(f"{name} is not a number")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For :func:`json.loads`: a key stands once."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
