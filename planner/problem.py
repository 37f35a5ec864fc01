"""What is wrong with an input: the field, the sentence, the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, for a person: which field, what, and what to do."""

    field: str
    message: str
    fix: str

    @property
    def sentence(self) -> str:
        """Message and fix as one line."""
        return f"{self.message} {self.fix}"


MEANT = "Did you mean "
"""Begins what is said of a name that is close to a known one."""


def meant(written: str, known: Iterable[str], otherwise: str) -> str:
    """The fix of a name that is not among those known: the closest, or what else to do."""
    close = get_close_matches(written[:64], known, n=1)
    return f"{MEANT}{close[0]}?" if close else otherwise


class PlanError(ValueError):
    """A plan that cannot be; carries every problem found."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(" ".join(problem.sentence for problem in problems))
        self.problems = problems


def refuse(problems: tuple[Problem, ...]) -> None:
    """For a validator of pydantic's: what :func:`of_error` gives back; nothing without problems."""
    if problems:
        sentences = " ".join(problem.sentence for problem in problems)
        raise PydanticCustomError(
            "plan", "{sentences}", {"sentences": sentences, "problems": problems}
        )


def of_error(
    error: ValidationError, what: str, remedy: Callable[[str], str]
) -> tuple[Problem, ...]:
    """Plain problems of a pydantic error in the fields of ``what``."""
    found: list[Problem] = []
    for detail in error.errors(include_url=False):
        if detail["type"] == "plan":
            found.extend(detail["ctx"]["problems"])
            continue
        field = str(detail["loc"][0]) if detail["loc"] else "plan"
        if detail["type"] == "extra_forbidden":
            complaint = f"is not a field of {what}"
        else:
            complaint = f"is {str(detail.get('input'))[:60]!r}: {_plainly(str(detail['msg']))}"
        found.append(Problem(field, f"{field} {complaint}.", remedy(field)))
    return tuple(found)


PLAINLY = (
    ("input should be greater than or equal to", "it must be at least"),
    ("input should be less than or equal to", "it must be at most"),
    ("input should be greater than", "it must be more than"),
    ("input should be less than", "it must be less than"),
    ("input should be a valid integer", "it must be a whole number"),
    ("input should be a valid", "it must be a"),
    ("input should be", "it must be"),
    ("value error, ", ""),
    ("string should match pattern", "it has other characters than"),
)
"""Beginnings of pydantic's sentences, and how a person says them; the first that fits."""


def _plainly(message: str) -> str:
    said = message[0].lower() + message[1:]
    for begins, plain in PLAINLY:
        if said.startswith(begins):
            return plain + said.removeprefix(begins)
    return said


Made = TypeVar("Made")


def best(
    values: Mapping[str, Any],
    attempt: Callable[[Mapping[str, Any]], tuple[Made | None, tuple[Problem, ...]]],
) -> tuple[Made | None, list[Problem]]:
    """What ``attempt`` makes of these values; those that break it are dropped and reported."""
    left = dict(values)
    found: list[Problem] = []
    while True:
        made, problems = attempt(left)
        found.extend(problem for problem in problems if problem not in found)
        blamed = {problem.field for problem in problems} & left.keys()
        if made is not None or not blamed:
            return made, found
        for field in blamed:
            del left[field]
