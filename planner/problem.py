"""What is wrong with an input: the field, the sentence, the fix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
            message = str(detail["msg"])
            complaint = f"is {str(detail.get('input'))[:60]!r}: {message[0].lower()}{message[1:]}"
        found.append(Problem(field, f"{field} {complaint}.", remedy(field)))
    return tuple(found)


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
