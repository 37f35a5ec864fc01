"""From the bytes asked for to the bytes of a block, and of the segment bought for it.

c10/cuda/CUDACachingAllocator.cpp ``round_size``, ``roundup_power2_next_division`` and
``get_allocation_size``; c10/core/AllocatorConfig.cpp ``roundup_power2_divisions``; torch 2.13.
"""

from __future__ import annotations

from planner.formulas.allocator import (
    BLOCK,
    LARGE_FROM,
    LARGE_ROUNDING,
    LARGE_SEGMENT,
    SMALL,
    SMALL_SEGMENT,
)
from planner.units import MIB

INTERVALS = 16
"""Divisions are kept for sizes from 1 MiB, 2 MiB, 4 MiB, ... to 32 GiB and above."""


def block_size(size_bytes: int, divisions: tuple[int, ...] = ()) -> int:
    """Bytes of the block that serves a request.

    Whole blocks of 512 bytes; with ``roundup_power2_divisions`` of more than 1, a request
    larger than 512 times the divisions goes up to the next step between two powers of two.

    Args:
        size_bytes: What was asked for; at least 1.
        divisions: Steps per power of two, one entry for each of the 16 intervals; empty
            when the setting is off.
    """
    if divisions and size_bytes >= BLOCK:
        interval = min(max(size_bytes.bit_length() - MIB.bit_length(), 0), INTERVALS - 1)
        steps = divisions[interval]
        if steps > 1 and size_bytes > BLOCK * steps:
            step = (1 << size_bytes.bit_length() - 1) // steps
            return -(-size_bytes // step) * step
    return -(-size_bytes // BLOCK) * BLOCK


def segment_size(block_bytes: int, large_segment_bytes: int = LARGE_SEGMENT) -> int:
    """Bytes asked from the driver when no cached block serves a block of ``block_bytes``."""
    if block_bytes <= SMALL:
        return SMALL_SEGMENT
    if block_bytes < LARGE_FROM:
        return large_segment_bytes
    return -(-block_bytes // LARGE_ROUNDING) * LARGE_ROUNDING
