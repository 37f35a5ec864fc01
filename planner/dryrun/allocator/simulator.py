"""The caching allocator itself: what a stream of allocations and frees reserves.

``DeviceCachingAllocator`` of c10/cuda/CUDACachingAllocator.cpp, torch 2.13. Pure Python: it
may import nothing that loads torch. The functions that run for each event are written out
where a call would cost as much as what it does; benchmarks/allocator.py measures them.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from planner.dryrun.allocator.block import ADDRESS_BITS, ALLOCATED, Block, Pool
from planner.dryrun.allocator.driver import Driver, OutOfDeviceMemory
from planner.dryrun.allocator.expandable import best_expandable
from planner.dryrun.allocator.segments import Segment, describe
from planner.dryrun.allocator.settings import AllocatorSettings
from planner.dryrun.allocator.supply import Supply
from planner.dryrun.allocator.trace import TraceEntry
from planner.formulas.allocator import BLOCK, SMALL
from planner.units import read_bytes

DEFAULTS = AllocatorSettings()


class Allocator:
    """Replays allocations and frees by the rules of torch's caching allocator.

    ``Allocator(AllocatorSettings(expandable_segments=True))``; then ``allocate`` and ``free`` in
    the order the program would, and read the counters. They are torch's of the same name
    (``torch.cuda.memory_stats()``), in bytes:

    - ``requested_bytes``: what callers asked for.
    - ``allocated_bytes``: blocks in use; rounding and unsplit remainders included. What torch
      calls *active* is the same here, since no other stream uses a freed block.
    - ``reserved_bytes``: everything bought from the driver.
    """

    def __init__(
        self,
        settings: AllocatorSettings = DEFAULTS,
        trace: list[TraceEntry] | None = None,
    ) -> None:
        """Start with nothing reserved.

        Args:
            settings: How the allocator is set up.
            trace: A list that is given every event, for ``planner.dryrun.allocator.snapshot``.
        """
        self.requested_bytes = 0
        self.allocated_bytes = 0
        self.peak_requested_bytes = 0
        self.peak_allocated_bytes = 0
        self._expandable = settings.expandable_segments
        self._driver = Driver(settings, trace)
        self._supply = Supply(self._expandable, self._driver)
        self._trace = trace
        self._live: dict[int, Block | None] = {}
        self._small, self._large = self._supply.small, self._supply.large

    @property
    def reserved_bytes(self) -> int:
        """Bytes bought from the driver, used or cached."""
        return self._driver.reserved_bytes

    @property
    def peak_reserved_bytes(self) -> int:
        """The most that was reserved since the start or ``reset_peaks``."""
        return self._driver.peak_reserved_bytes

    @property
    def num_alloc_retries(self) -> int:
        """How often the cache had to be emptied to go on: from then on peaks are the card's."""
        return self._supply.retries

    def allocate(self, key: int, size_bytes: int, stream: int = 0, label: str = "") -> None:
        """Allocate ``size_bytes`` on a stream.

        Args:
            key: The storage's identity, chosen by the caller; not one that is allocated.
            size_bytes: What is asked for. Nothing is reserved for 0 bytes.
            stream: The stream that is current. Memory freed on it serves only it.
            label: What the trace calls the allocation.

        Raises:
            ValueError: The key is allocated already, or the size is negative.
            OutOfDeviceMemory: The card's memory does not suffice.
        """
        live = self._live
        if key in live:
            raise ValueError(f"key: {key} is allocated already, free it first")
        size = (size_bytes + BLOCK - 1) // BLOCK * BLOCK
        if size <= 0:
            if size_bytes < 0:
                raise ValueError(f"size_bytes: {size_bytes} is negative")
            live[key] = None
            return
        small = size <= SMALL
        pools = self._small if small else self._large
        pool = pools.get(stream)
        if pool is None:
            pool = pools[stream] = Pool(stream, small)
        keys = pool.keys
        if self._expandable:
            block = best_expandable(pool, size)
        else:
            index = bisect_left(keys, -(size << ADDRESS_BITS))
            block = pool.blocks.pop(keys.pop(index - 1)) if index else None
        if block is None:
            block = self._supply.buy(pool, size)
            if block is None:
                raise OutOfDeviceMemory(
                    f"{read_bytes(size_bytes)} asked for: {read_bytes(self.reserved_bytes)} are "
                    f"reserved, {read_bytes(self.allocated_bytes)} of them allocated"
                )
        rest = block.size - size
        if rest and (rest >= BLOCK if small or self._expandable else rest > SMALL):
            # The found block becomes the rest; a new one in front of it is handed out.
            remainder = block
            before = remainder.prev
            address = remainder.address
            block = Block(pool, address, size, ALLOCATED, remainder.virtual, before, remainder)
            if before is not None:
                before.next = block
            remainder.prev = block
            remainder.address = address = address + size
            remainder.size = rest
            insert_key = -(rest << ADDRESS_BITS | address)
            insort(keys, insert_key)
            pool.blocks[insert_key] = remainder
            taken = size
        else:
            block.state = ALLOCATED
            taken = block.size
        block.requested = size_bytes
        block.label = label
        live[key] = block
        requested = self.requested_bytes = self.requested_bytes + size_bytes
        if requested > self.peak_requested_bytes:
            self.peak_requested_bytes = requested
        allocated = self.allocated_bytes = self.allocated_bytes + taken
        if allocated > self.peak_allocated_bytes:
            self.peak_allocated_bytes = allocated
        if self._trace is not None:
            self._trace.append(TraceEntry("alloc", block.address, size_bytes, stream, label))

    def free(self, key: int) -> None:
        """Free an allocation. Its block can be used again at once.

        Raises:
            ValueError: Nothing is allocated under the key.
        """
        try:
            block = self._live.pop(key)
        except KeyError:
            raise ValueError(f"key: nothing is allocated as {key}") from None
        if block is None:
            return
        self.allocated_bytes -= block.size
        self.requested_bytes -= block.requested
        if self._trace is not None:
            where = block.address, block.requested, block.pool.stream, block.label
            self._driver.record("free_requested", *where)
            self._driver.record("free_completed", *where)
        block.pool.give_back(block)

    def empty_cache(self) -> None:
        """Give whole free segments, and free pages, back to the driver."""
        self._supply.release()

    def reset_peaks(self) -> None:
        """Let every peak start again from what is held now."""
        self.peak_requested_bytes = self.requested_bytes
        self.peak_allocated_bytes = self.allocated_bytes
        self._driver.peak_reserved_bytes = self._driver.reserved_bytes

    def segments(self) -> list[Segment]:
        """Everything that is reserved, by address."""
        used = (block for block in self._live.values() if block is not None)
        cached = (block for pool in self._supply.pools() for block in pool.blocks.values())
        return describe([*used, *cached])
