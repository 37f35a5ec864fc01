"""Giving cached memory back to the driver: everything, enough for one request, or what is old.

c10/cuda/CUDACachingAllocator.cpp ``release_blocks``, ``release_available_cached_blocks``,
``garbage_collect_cached_blocks``; torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.dryrun.allocator.block import Block, Pool
from planner.dryrun.allocator.driver import Driver
from planner.dryrun.allocator.expandable import unmap


def is_split(block: Block) -> bool:
    """Whether the block is only part of its segment."""
    return block.prev is not None or block.next is not None


def release_all(pools: Iterable[Pool], driver: Driver) -> None:
    """Give back whole free segments, and whole free pages of expandable ones."""
    for pool in pools:
        for block in _by_size(pool):
            if block.virtual is not None:
                unmap(block, driver)
            elif not is_split(block):
                _release(block, driver)


def release_enough(pool: Pool, size: int, max_split_size: int, driver: Driver) -> bool:
    """Give back blocks too large to be split: one that is large enough, or several.

    Returns:
        Whether as much was given back as the request needs.
    """
    wanted = max(size, max_split_size)
    index = pool.best_fit(wanted)
    if index >= 0:
        block = pool.blocks[pool.keys[index]]
        if block.virtual is None:
            _release(block, driver)
            return True
    released = 0
    for block in [pool.blocks[key] for key in pool.keys[index + 1 :]]:
        if released >= wanted or block.size < max_split_size:
            break
        if block.virtual is None:
            released += block.size
            _release(block, driver)
    return released >= wanted


def collect_garbage(pools: Iterable[Pool], excess: int, searches: int, driver: Driver) -> None:
    """Give back cached segments that were not used for long, the oldest ones first.

    Each round gives back every segment at least as old as the average of those left, until
    ``excess`` bytes are gone. An age is the number of searches of the large pools
    (``searches`` so far) since the block was cached.
    """
    old = [block for pool in pools for block in _by_size(pool) if not is_split(block)]
    age = sum(searches - block.inserted for block in old)
    count = len(old)
    reclaimed = 0
    found = True
    while reclaimed < excess and found and count > 0:
        threshold = age / count
        found = False
        for block in list(old):
            if block.virtual is None and searches - block.inserted >= threshold:
                found = True
                reclaimed += block.size
                age -= searches - block.inserted
                count -= 1
                old.remove(block)
                _release(block, driver)


def _by_size(pool: Pool) -> list[Block]:
    """The pool's free blocks in their order, in a list of its own."""
    return [pool.blocks[key] for key in reversed(pool.keys)]


def _release(block: Block, driver: Driver) -> None:
    pool = block.pool
    pool.remove(block)
    driver.sell("segment_free", block.address, block.size, pool.stream)
