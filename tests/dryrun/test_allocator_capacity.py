"""What happens when the card is full, worked out by hand."""

import pytest

from planner.dryrun.allocator import Allocator, AllocatorSettings, OutOfDeviceMemory
from planner.units import MIB


def full(capacity: int) -> Allocator:
    return Allocator(AllocatorSettings(capacity_bytes=capacity * MIB))


def test_the_cache_is_emptied_before_giving_up() -> None:
    allocator = full(40)
    allocator.allocate(1, 30 * MIB)
    allocator.free(1)
    # 30 cached; 34 more do not fit into 40. The 30 are given back, then 34 fit.
    allocator.allocate(2, 34 * MIB)
    assert allocator.num_alloc_retries == 1
    assert allocator.reserved_bytes == 34 * MIB
    assert allocator.peak_reserved_bytes == 34 * MIB


def test_a_cached_block_that_fits_needs_no_retry() -> None:
    allocator = full(30)
    allocator.allocate(1, 30 * MIB)
    allocator.free(1)
    allocator.allocate(2, 28 * MIB)
    assert allocator.num_alloc_retries == 0


def test_out_of_memory_says_what_was_asked_and_held() -> None:
    allocator = full(40)
    allocator.allocate(1, 29 * MIB)  # a segment of 30, of which 29: 1 MiB is not split off
    told = "11 MiB asked for: 30 MiB are reserved, 30 MiB of them allocated"
    with pytest.raises(OutOfDeviceMemory, match=told):
        allocator.allocate(2, 11 * MIB)
    assert allocator.num_alloc_retries == 1
    # The failed key is not allocated; what fits still fits.
    allocator.allocate(2, 10 * MIB)
    assert allocator.reserved_bytes == 40 * MIB


def test_a_half_used_segment_cannot_help() -> None:
    allocator = full(40)
    allocator.allocate(1, 4 * MIB)  # 20 reserved, 16 free
    with pytest.raises(OutOfDeviceMemory):
        allocator.allocate(2, 22 * MIB)
    assert allocator.reserved_bytes == 20 * MIB
