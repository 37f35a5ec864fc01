"""Ways in which the steps of a trial end early. No torch."""

from __future__ import annotations


class MemoryEnded(Exception):
    """Memory ended in a phase. Bytes that nobody reported are None."""

    def __init__(
        self,
        phase: str,
        *,
        asked_bytes: int | None,
        live_bytes: int | None,
        capacity_bytes: int | None,
    ) -> None:
        super().__init__(f"out of memory in {phase}")
        self.phase = phase
        self.asked_bytes = asked_bytes
        self.live_bytes = live_bytes
        self.capacity_bytes = capacity_bytes


class CannotRun(ValueError):
    """A plan that no trial runs here; the message names the field and the fix."""
