"""Where a block comes from: cached ones first, then the driver, after giving back what it takes.

``get_free_block``, ``alloc_block`` and the retries of ``malloc`` in
c10/cuda/CUDACachingAllocator.cpp, torch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.dryrun.allocator.block import Block, Pool
from planner.dryrun.allocator.driver import Driver
from planner.dryrun.allocator.expandable import best_expandable, grow
from planner.dryrun.allocator.release import collect_garbage, release_enough
from planner.dryrun.allocator.rounding import segment_size
from planner.dryrun.allocator.settings import AllocatorSettings
from planner.formulas.allocator import SMALL_SEGMENT


class Supply:
    """The cached blocks of every stream, and the driver that sells more.

    ``empty_cache`` is called where everything cached has to go back first.
    """

    def __init__(
        self, settings: AllocatorSettings, driver: Driver, empty_cache: Callable[[], None]
    ) -> None:
        self.settings = settings
        self.driver = driver
        self.expandable_segments = settings.expandable_segments
        self.small: dict[int, Pool] = {}
        self.large: dict[int, Pool] = {}
        self.retries = 0
        self._empty_cache = empty_cache
        self._max_split = settings.max_split_size_bytes
        self._allowed = settings.allowed_bytes
        self._collects = settings.garbage_collection_threshold > 0 and self._allowed is not None
        self._searches = 0
        self.special = self._max_split is not None or self._collects
        """Whether a search has rules to follow besides best fit."""

    def pools(self) -> Iterator[Pool]:
        """Large pools before small ones, streams in order: torch's order of giving back."""
        for pools in (self.large, self.small):
            for stream in sorted(pools):
                yield pools[stream]

    def search(self, pool: Pool, size: int) -> Block | None:
        """A cached block by best fit, with the rules that settings add to it."""
        if self._collects and not pool.small:
            self._searches += 1
            for large in self.large.values():
                large.searches = self._searches
        keys, blocks = pool.keys, pool.blocks
        index = pool.best_fit(size)
        if index < 0:
            return None
        if blocks[keys[index]].virtual is not None:
            index = best_expandable(pool, index, self.expandable_segments)
            if index < 0:
                return None
        block = blocks[keys[index]]
        limit = self._max_split
        if limit is not None:
            if size < limit <= block.size:
                return None
            rounding = self.settings.max_non_split_rounding_bytes
            if size >= limit and block.size >= size + rounding:
                return None
        del blocks[keys.pop(index)]
        return block

    def buy(self, pool: Pool, size: int) -> Block | None:
        """A block from the driver, after giving back what it takes; None where that is too little.

        The driver is asked for :meth:`wanted` bytes.
        """
        driver = self.driver
        wanted = self.wanted(size)
        if self._collects:
            assert self._allowed is not None
            threshold = int(self.settings.garbage_collection_threshold * self._allowed)
            large = [self.large[stream] for stream in sorted(self.large)]
            collect_garbage(large, driver.reserved_bytes - threshold, self._searches, driver)
        block = self._try(pool, size, wanted)
        if (
            block is None
            and self._max_split is not None
            and release_enough(pool, size, self._max_split, driver)
        ):
            block = self._try(pool, size, wanted)
        if block is None:
            self._empty_cache()
            self.retries += 1
            block = self._try(pool, size, wanted)
        return block

    def wanted(self, size: int) -> int:
        """Bytes of the segment that is bought for a block."""
        return segment_size(size, self.settings.large_segment_bytes)

    def _try(self, pool: Pool, size: int, wanted: int) -> Block | None:
        """A new segment, or more pages of the expandable one."""
        driver = self.driver
        if self._allowed is not None and driver.reserved_bytes + wanted > self._allowed:
            return None
        if self.expandable_segments:
            self.special = True
            page = SMALL_SEGMENT if pool.small else self.settings.large_segment_bytes
            return grow(pool, size, page, driver)
        address = driver.take_addresses(wanted)
        if not driver.buy("segment_alloc", address, wanted, pool.stream):
            return None
        return Block(pool, address, wanted)
