"""What a plan says of the allocator; all else is as torch 2.13 has it by itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """How the caching allocator is set up, and how large its card is."""

    expandable_segments: bool = False
    """Grow one range of addresses by pages in place of buying segments."""
    capacity_bytes: int | None = None
    """What the driver can give this process; None: without end."""
