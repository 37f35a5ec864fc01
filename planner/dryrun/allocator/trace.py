"""One thing the allocator did, in the words of torch's memory snapshots."""

from __future__ import annotations

from typing import Literal, NamedTuple

Action = Literal[
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "oom",
]
"""Names of c10/core/CachingDeviceAllocator.h TraceEntry::Action, torch 2.13, as its Python
snapshot spells them. ``free_completed`` follows ``free_requested`` at once unless another
stream still uses the block; the two ``map`` actions belong to expandable segments."""


class TraceEntry(NamedTuple):
    """One event of the allocator.

    ``size_bytes`` is what the caller asked for (``alloc``, ``free_*``), the block that was
    not found (``oom``), or what the driver gave or took back (``segment_*``). For ``oom``,
    ``address`` carries the bytes that were still free on the card, as it does in torch.
    """

    action: Action
    address: int
    size_bytes: int
    stream: int
    frame_name: str = ""
