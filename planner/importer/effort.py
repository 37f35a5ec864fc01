"""How much work a person's text may make."""

from __future__ import annotations

from typing import Protocol

from planner.importer.given import UnreadableError

MOST_STEPS = 100_000
"""Pieces, characters, values and statements looked at: below a second of work."""


class Text(Protocol):
    """A text that is read."""

    def error(self, at: int, message: str) -> UnreadableError:
        """What to raise for something at a character."""


class Effort:
    """How much work was done, over all texts of one reading."""

    def __init__(self, instead: str = "Give the command itself.") -> None:
        self.steps = self.at = 0
        self.text: Text | None = None
        self.instead = instead

    def reach(self, text: Text, at: int) -> None:
        """A statement that the following work is for."""
        self.text, self.at = text, at

    def spend(self, steps: int) -> None:
        """Count work done; raise UnreadableError over the bound."""
        self.steps += steps
        if self.steps > MOST_STEPS and self.text:
            raise self.text.error(
                self.at,
                "reading on would take more work than any script for people needs. "
                f"{self.instead}",
            )
