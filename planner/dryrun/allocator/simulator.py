"""The caching allocator itself: what a stream of allocations and frees reserves.

``DeviceCachingAllocator`` of c10/cuda/CUDACachingAllocator.cpp, torch 2.13. Pure Python: it
may import nothing that loads torch. The functions that run for each event are written out
where a call would cost as much as what it does; benchmarks/allocator.py measures them.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from planner.dryrun.allocator.block import ADDRESS_BITS, ALLOCATED, PENDING, Block, Pool
from planner.dryrun.allocator.driver import Driver, OutOfDeviceMemory
from planner.dryrun.allocator.release import release_all
from planner.dryrun.allocator.rounding import block_size
from planner.dryrun.allocator.segments import Segment, describe
from planner.dryrun.allocator.settings import AllocatorSettings
from planner.dryrun.allocator.supply import Supply
from planner.dryrun.allocator.trace import TraceEntry
from planner.formulas.allocator import BLOCK, SMALL

DEFAULTS = AllocatorSettings()


class Allocator:
    """Replays allocations and frees by the rules of torch's caching allocator.

    ``Allocator(AllocatorSettings.parse("expandable_segments:True"))``; then ``allocate`` and
    ``free`` in the order the program would, and read the counters. They are torch's of the
    same name (``torch.cuda.memory_stats()``), in bytes:

    - ``requested_bytes``: what callers asked for, until the free is complete.
    - ``allocated_bytes``: blocks in use; rounding and unsplit remainders included.
    - ``active_bytes``: the same, plus freed blocks that another stream still uses.
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
        self.settings = settings
        self.requested_bytes = 0
        self.allocated_bytes = 0
        self.active_bytes = 0
        self.peak_requested_bytes = 0
        self.peak_allocated_bytes = 0
        self.peak_active_bytes = 0
        self.num_ooms = 0
        self._driver = Driver(settings, trace)
        self._supply = Supply(settings, self._driver, self.empty_cache)
        self._trace = trace
        self._live: dict[int, Block | None] = {}
        self._uses: dict[int, set[int]] = {}
        self._pending: dict[Block, set[int]] = {}
        self._small, self._large = self._supply.small, self._supply.large
        self._divisions = settings.divisions
        self._max_split = settings.max_split_size_bytes

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

    @property
    def expandable_segments(self) -> bool:
        """May be switched while running; it decides where memory is taken from then on."""
        return self._supply.expandable_segments

    @expandable_segments.setter
    def expandable_segments(self, enabled: bool) -> None:
        self._supply.expandable_segments = enabled

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
        if self._divisions:
            size = block_size(size_bytes, self._divisions)
        small = size <= SMALL
        pools = self._small if small else self._large
        pool = pools.get(stream)
        if pool is None:
            pool = pools[stream] = Pool(stream, small)
        keys = pool.keys
        supply = self._supply
        if supply.special:
            block = supply.search(pool, size)
        else:
            index = bisect_left(keys, -(size << ADDRESS_BITS))
            block = pool.blocks.pop(keys.pop(index - 1)) if index else None
        if block is None:
            block = supply.buy(pool, size)
            if block is None:
                raise self._out_of_memory(pool, size, size_bytes)
        rest = block.size - size
        if rest and (
            rest >= BLOCK
            if small or supply.expandable_segments
            else rest > SMALL and (self._max_split is None or size < self._max_split)
        ):
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
        active = self.active_bytes = self.active_bytes + taken
        if active > self.peak_active_bytes:
            self.peak_active_bytes = active
        if self._trace is not None:
            self._trace.append(TraceEntry("alloc", block.address, size_bytes, stream, label))

    def free(self, key: int, *, ready: bool = True, events: tuple[int, ...] = ()) -> None:
        """Free an allocation. Its block can be used again at once unless a stream uses it.

        Args:
            key: The allocation.
            ready: False where the allocation's own stream has to be waited for as well.
            events: Streams that use the memory, besides those of ``record_stream``. The block
                stays active until ``synchronize`` has waited for all of them.

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
        if self._trace is not None:
            self._driver.record(
                "free_requested", block.address, block.requested, block.pool.stream, block.label
            )
        if events or not ready or key in self._uses:
            streams = self._uses.pop(key, set()) | set(events)
            streams.discard(block.pool.stream)
            if not ready:
                streams.add(block.pool.stream)
            if streams:
                block.state = PENDING
                self._pending[block] = streams
                return
        self._complete(block)

    def record_stream(self, key: int, stream: int) -> None:
        """Note that another stream uses the allocation (``Tensor.record_stream``).

        Raises:
            ValueError: Nothing is allocated under the key.
        """
        if key not in self._live:
            raise ValueError(f"key: nothing is allocated as {key}")
        block = self._live[key]
        if block is not None and stream != block.pool.stream:
            self._uses.setdefault(key, set()).add(stream)

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for one stream, or all: blocks freed before are cached once none is left.

        Torch notices at its next allocation, this at once.
        """
        for block, streams in list(self._pending.items()):
            if stream is not None:
                streams.discard(stream)
            if stream is None or not streams:
                del self._pending[block]
                self._complete(block)

    def empty_cache(self) -> None:
        """Give whole free segments, and free pages, back to the driver.

        Waits for all streams first.
        """
        self.synchronize()
        release_all(self._supply.pools(), self._driver)

    def reset_peaks(self) -> None:
        """Let every peak start again from what is held now."""
        self.peak_requested_bytes = self.requested_bytes
        self.peak_allocated_bytes = self.allocated_bytes
        self.peak_active_bytes = self.active_bytes
        self._driver.peak_reserved_bytes = self._driver.reserved_bytes

    def segments(self) -> list[Segment]:
        """Everything that is reserved, by address."""
        keys = {block: key for key, block in self._live.items() if block is not None}
        cached = (block for pool in self._supply.pools() for block in pool.blocks.values())
        return describe([*keys, *self._pending, *cached], keys)

    def _complete(self, block: Block) -> None:
        """Cache a freed block that no stream uses any more."""
        self.active_bytes -= block.size
        self.requested_bytes -= block.requested
        if self._trace is not None:
            self._driver.record(
                "free_completed", block.address, block.requested, block.pool.stream, block.label
            )
        block.pool.give_back(block)

    def _out_of_memory(self, pool: Pool, size: int, size_bytes: int) -> OutOfDeviceMemory:
        driver = self._driver
        self.num_ooms += 1
        driver.record("oom", driver.available_bytes, size, pool.stream)
        wanted = self._supply.wanted(size)
        return OutOfDeviceMemory(size_bytes, wanted, driver.reserved_bytes, self.allocated_bytes)
