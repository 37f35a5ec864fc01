"""Ways in which the steps of a trial end early. No torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class MemoryEnded(Exception):
    """Memory ended in a phase. Bytes that nobody reported are None."""

    phase: str
    asked_bytes: int | None
    live_bytes: int | None
    capacity_bytes: int | None


class CannotRun(ValueError):
    """A plan that no trial runs here; the message names the field and the fix."""
