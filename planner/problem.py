"""What is wrong with an input: the field, the sentence, the fix."""

from __future__ import annotations

from dataclasses import dataclass


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
