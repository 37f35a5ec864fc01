"""Where a block comes from: cached ones first, then the driver, after giving back what it takes.

``get_free_block``, ``alloc_block``, ``get_allocation_size``, ``release_blocks`` and the retry of
``malloc`` in c10/cuda/CUDACachingAllocator.cpp, torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.dryrun.allocator.block import Block, Pool
from planner.dryrun.allocator.driver import Driver
from planner.dryrun.allocator.expandable import grow, unmap
from planner.formulas.allocator import (
    LARGE_FROM,
    LARGE_ROUNDING,
    LARGE_SEGMENT,
    SMALL,
    SMALL_SEGMENT,
)


class Supply:
    """The cached blocks of every stream, and the driver that sells more."""

    def __init__(self, expandable_segments: bool, driver: Driver) -> None:
        self.expandable_segments = expandable_segments
        self.driver = driver
        self.small: dict[int, Pool] = {}
        self.large: dict[int, Pool] = {}
        self.retries = 0

    def pools(self) -> Iterator[Pool]:
        """Large pools before small ones, streams in order: torch's order of giving back."""
        for pools in (self.large, self.small):
            for stream in sorted(pools):
                yield pools[stream]

    def buy(self, pool: Pool, size: int) -> Block | None:
        """A block from the driver, after giving back what it takes; None where that is too little.

        The driver is asked for a whole segment (:func:`segment_size`), or for pages.
        """
        block = self._try(pool, size)
        if block is None:
            self.release()
            self.retries += 1
            block = self._try(pool, size)
        return block

    def release(self) -> None:
        """Give back whole free segments, and whole free pages of expandable ones."""
        for pool in self.pools():
            for block in [pool.blocks[key] for key in reversed(pool.keys)]:
                if block.virtual is not None:
                    unmap(block, self.driver)
                elif block.prev is None and block.next is None:
                    pool.remove(block)
                    self.driver.sell("segment_free", block.address, block.size, pool.stream)

    def _try(self, pool: Pool, size: int) -> Block | None:
        """A new segment, or more pages of the expandable one."""
        driver = self.driver
        if self.expandable_segments:
            return grow(pool, size, SMALL_SEGMENT if pool.small else LARGE_SEGMENT, driver)
        wanted = segment_size(size)
        address = driver.take_addresses(wanted)
        if not driver.buy("segment_alloc", address, wanted, pool.stream):
            return None
        return Block(pool, address, wanted)


def segment_size(block_bytes: int) -> int:
    """Bytes asked from the driver when no cached block serves a block of ``block_bytes``."""
    if block_bytes <= SMALL:
        return SMALL_SEGMENT
    if block_bytes < LARGE_FROM:
        return LARGE_SEGMENT
    return -(-block_bytes // LARGE_ROUNDING) * LARGE_ROUNDING
