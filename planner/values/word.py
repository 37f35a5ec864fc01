"""What a framework calls a field of a plan. Imports nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """The framework's option for a field, and its label where it differs from the usual one."""

    option: str
    label: str = ""

    @property
    def short(self) -> str:
        """The option without the path to it."""
        return self.option.rpartition(".")[2]
