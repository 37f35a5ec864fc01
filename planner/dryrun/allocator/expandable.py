"""Expandable segments: one range of addresses per stream and pool, filled page by page.

c10/cuda/CUDACachingAllocator.cpp ``find_expandable_block``, ``map_block``,
``try_allocate_expandable_block``, ``unmap_block``; torch 2.13.
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter

from planner.dryrun.allocator.block import FREE, UNMAPPED, Block, Pool, VirtualRange
from planner.dryrun.allocator.driver import Driver

_ADDRESS = attrgetter("address")


def best_expandable(pool: Pool, index: int, enabled: bool) -> int:
    """Where best fit ends, if the smallest block that fits is an expandable one.

    A block that can still grow counts with the size it could reach, so the search goes on
    while the next block reaches less. With expandable segments switched off, their blocks
    are passed over.

    Args:
        pool: The free blocks.
        index: Place of the expandable block among ``pool.keys``.
        enabled: Whether expandable segments are on.

    Returns:
        The place of the block to take; -1 if there is none.
    """
    block = pool.blocks[pool.keys[index]]
    while block.virtual is not None:
        if not index:
            return 0 if enabled else -1
        following = pool.blocks[pool.keys[index - 1]]
        if enabled and _reach(following) >= _reach(block):
            break
        index, block = index - 1, following
    return index


def _reach(block: Block) -> int:
    """Bytes the block could have: its own, and the unmapped addresses that follow it."""
    after = block.next
    if after is not None and after.state == UNMAPPED:
        return block.size + after.size
    return block.size


def grow(pool: Pool, size: int, page_bytes: int, driver: Driver) -> Block | None:
    """A free block of at least ``size`` bytes, at the lowest address with room for it.

    Returns:
        The block, taken out of the pool; None where the card has no more memory. Pages
        mapped before that are kept, as torch keeps them.
    """
    block = _lowest_room(pool, size)
    if block is None:
        base, length = driver.take_range(page_bytes, size)
        block = Block(pool, base, length, UNMAPPED, VirtualRange(base, page_bytes))
        insort(pool.unmapped, block, key=_ADDRESS)
    if block.state == UNMAPPED and not _map(block, min(size, block.size), driver):
        return None
    while block.size < size:
        after = block.next
        assert after is not None
        if not _map(after, min(size - block.size, after.size), driver):
            return None
        block = after
    pool.remove(block)
    return block


def _lowest_room(pool: Pool, size: int) -> Block | None:
    """The first block of a run of free and unmapped ones that holds ``size``."""
    for block in pool.unmapped:
        first = block
        if block.prev is not None and block.prev.state == FREE:
            first = block.prev
        room = 0
        reached: Block | None = first
        while room < size and reached is not None and reached.state in (FREE, UNMAPPED):
            room += reached.size
            reached = reached.next
        if room >= size:
            return first
    return None


def _map(block: Block, size: int, driver: Driver) -> bool:
    """Put pages under the first ``size`` bytes of an unmapped block, and cache it as free."""
    pool, virtual = block.pool, block.virtual
    assert virtual is not None
    mapped = -(-size // virtual.page_bytes) * virtual.page_bytes
    if not driver.buy("segment_map", block.address, mapped, pool.stream):
        return False
    pool.unmapped.remove(block)
    if mapped < block.size:
        insort(pool.unmapped, _cut(block, mapped), key=_ADDRESS)
    pool.give_back(block)
    return True


def unmap(block: Block, driver: Driver) -> None:
    """Give back the pages that lie wholly inside a free block."""
    pool, virtual = block.pool, block.virtual
    assert virtual is not None
    page = virtual.page_bytes
    start = block.address + (virtual.base - block.address) % page
    end = block.address + block.size
    end -= (end - virtual.base) % page
    if start >= end:
        return
    pool.remove(block)
    if start > block.address:
        first, block = block, _cut(block, start - block.address)
        first.inserted = 0
        pool.insert(first)
    if block.address + block.size > end:
        pool.insert(_cut(block, end - start))
    driver.sell("segment_unmap", start, end - start, pool.stream)
    block.state = UNMAPPED
    _join_unmapped(block, pool)
    if block.prev is None and block.next is None:
        # Nothing of the range is left in use: its addresses are given back too.
        return
    insort(pool.unmapped, block, key=_ADDRESS)


def _cut(block: Block, size: int) -> Block:
    """Leave a block its first ``size`` bytes; what follows becomes one of its own."""
    rest = Block(
        block.pool,
        block.address + size,
        block.size - size,
        block.state,
        block.virtual,
        prev=block,
        next=block.next,
    )
    if rest.next is not None:
        rest.next.prev = rest
    block.next = rest
    block.size = size
    return rest


def _join_unmapped(block: Block, pool: Pool) -> None:
    """Merge with unmapped neighbours."""
    before = block.prev
    if before is not None and before.state == UNMAPPED:
        pool.unmapped.remove(before)
        block.address = before.address
        block.size += before.size
        block.prev = before.prev
        if block.prev is not None:
            block.prev.next = block
    after = block.next
    if after is not None and after.state == UNMAPPED:
        pool.unmapped.remove(after)
        block.size += after.size
        block.next = after.next
        if block.next is not None:
            block.next.prev = block
