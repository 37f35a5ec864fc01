"""What the allocator holds at an instant, as plain values: segments and their blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from planner.dryrun.allocator.block import ALLOCATED, PENDING, UNMAPPED, Block

State = Literal["active_allocated", "active_pending_free", "inactive"]
"""In use; freed, but a stream still uses it; cached. Torch's names."""


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """A stretch of a segment."""

    address: int
    size_bytes: int
    requested_bytes: int
    """What was asked for; 0 for cached blocks."""
    key: int | None
    """The allocation's key; None once it was freed."""
    state: State
    label: str = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """Memory from the driver, tiled by its blocks.

    An expandable segment appears as one segment for each unbroken stretch of pages.
    """

    address: int
    size_bytes: int
    stream: int
    pool: Literal["small", "large"]
    expandable: bool
    blocks: tuple[BlockInfo, ...]


def describe(blocks: Iterable[Block], keys: Mapping[Block, int]) -> list[Segment]:
    """Segments that contain ``blocks`` (all mapped ones of the allocator), by address."""
    segments = []
    for head in blocks:
        if head.prev is None or head.prev.state == UNMAPPED:
            found = []
            block: Block | None = head
            while block is not None and block.state != UNMAPPED:
                found.append(_info(block, keys.get(block)))
                block = block.next
            segments.append(
                Segment(
                    head.address,
                    sum(info.size_bytes for info in found),
                    head.pool.stream,
                    "small" if head.pool.small else "large",
                    head.virtual is not None,
                    tuple(found),
                )
            )
    return sorted(segments, key=lambda segment: segment.address)


def _info(block: Block, key: int | None) -> BlockInfo:
    if block.state == ALLOCATED:
        state: State = "active_allocated"
    elif block.state == PENDING:
        state = "active_pending_free"
    else:
        return BlockInfo(block.address, block.size, 0, None, "inactive")
    return BlockInfo(block.address, block.size, block.requested, key, state, block.label)
