"""Blocks of memory, and the sorted list of free ones that an allocation searches.

``Block`` and ``BlockPool`` of c10/cuda/CUDACachingAllocator.cpp, torch 2.13; one pool here
for each stream, since torch's search never leaves the stream.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import NamedTuple

FREE = 0
ALLOCATED = 1
PENDING = 2
UNMAPPED = 3
"""What a block is: cached; in use; freed but still used by a stream; addresses without memory."""

ADDRESS_BITS = 56
"""A free block's sort key is one integer, size above and address below, and negative: comparing
integers keeps the search fast, and so do large blocks in front. Most blocks that come and go are
small ones, behind thousands of whole segments, and what is behind them has to make room."""


class VirtualRange(NamedTuple):
    """Addresses that an expandable segment may fill with pages."""

    base: int
    page_bytes: int


@dataclass(slots=True, eq=False)
class Block:
    """A stretch of a segment. ``prev`` and ``next`` are its neighbours in the segment."""

    pool: Pool
    address: int
    size: int
    state: int = FREE
    virtual: VirtualRange | None = None
    prev: Block | None = None
    next: Block | None = None
    requested: int = 0
    label: str = ""
    inserted: int = 0
    """How often the large pools had been searched when the block was cached: its age."""


@dataclass(slots=True, eq=False)
class Pool:
    """Free blocks of one stream, small (up to 1 MiB) or large.

    ``keys`` go from the largest size to the smallest, and from the highest address to the lowest.
    """

    stream: int
    small: bool
    keys: list[int] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)
    unmapped: list[Block] = field(default_factory=list)
    searches: int = 0

    def best_fit(self, size: int) -> int:
        """Place of the smallest free block of at least ``size`` bytes; -1 where there is none.

        Larger ones are at the places below it.
        """
        return bisect_left(self.keys, -(size << ADDRESS_BITS)) - 1

    def insert(self, block: Block) -> None:
        """Cache a free block whose neighbours are not free."""
        key = -(block.size << ADDRESS_BITS | block.address)
        insort(self.keys, key)
        self.blocks[key] = block

    def remove(self, block: Block) -> None:
        """Take a free block out."""
        key = -(block.size << ADDRESS_BITS | block.address)
        del self.keys[bisect_left(self.keys, key)]
        del self.blocks[key]

    def give_back(self, block: Block) -> None:
        """Cache a block that is no longer used, joined with its free neighbours."""
        keys, blocks = self.keys, self.blocks
        size = block.size
        before = block.prev
        if before is not None and not before.state:
            key = -(before.size << ADDRESS_BITS | before.address)
            del keys[bisect_left(keys, key)]
            del blocks[key]
            size += before.size
            block.address = before.address
            block.prev = before = before.prev
            if before is not None:
                before.next = block
        after = block.next
        if after is not None and not after.state:
            key = -(after.size << ADDRESS_BITS | after.address)
            del keys[bisect_left(keys, key)]
            del blocks[key]
            size += after.size
            block.next = after = after.next
            if after is not None:
                after.prev = block
        block.size = size
        block.state = FREE
        key = -(size << ADDRESS_BITS | block.address)
        insort(keys, key)
        blocks[key] = block
        block.inserted = self.searches
