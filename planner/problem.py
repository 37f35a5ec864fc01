"""What is wrong with an input: the field, the sentence, the fix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar


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
