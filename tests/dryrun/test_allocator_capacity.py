"""What happens when the card is full, and the settings that bear on it; worked out by hand."""

import pytest

from planner.dryrun.allocator import Allocator, AllocatorSettings, OutOfDeviceMemory, TraceEntry
from planner.units import MIB


def full(capacity: int, **settings: object) -> Allocator:
    return Allocator(AllocatorSettings(capacity_bytes=capacity * MIB, **settings))  # type: ignore[arg-type]


def test_the_cache_is_emptied_before_giving_up() -> None:
    allocator = full(40)
    allocator.allocate(1, 30 * MIB)
    allocator.free(1)
    # 30 cached; 34 more do not fit into 40. The 30 are given back, then 34 fit.
    allocator.allocate(2, 34 * MIB)
    assert (allocator.num_alloc_retries, allocator.num_ooms) == (1, 0)
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
    with pytest.raises(OutOfDeviceMemory, match="11 MiB asked for, a segment of 12 MiB") as raised:
        allocator.allocate(2, 11 * MIB)
    error = raised.value
    assert (error.asked_bytes, error.segment_bytes) == (11 * MIB, 12 * MIB)
    assert (error.reserved_bytes, error.allocated_bytes) == (30 * MIB, 30 * MIB)
    assert (allocator.num_alloc_retries, allocator.num_ooms) == (1, 1)
    # The failed key is not allocated; what fits still fits.
    allocator.allocate(2, 10 * MIB)
    assert allocator.reserved_bytes == 40 * MIB


def test_a_half_used_segment_cannot_help() -> None:
    allocator = full(40)
    allocator.allocate(1, 4 * MIB)  # 20 reserved, 16 free
    with pytest.raises(OutOfDeviceMemory):
        allocator.allocate(2, 22 * MIB)
    assert allocator.reserved_bytes == 20 * MIB


def test_the_retry_waits_for_other_streams() -> None:
    allocator = full(40)
    allocator.allocate(1, 30 * MIB)
    allocator.free(1, events=(1,))
    allocator.allocate(2, 30 * MIB)
    assert (allocator.active_bytes, allocator.reserved_bytes) == (30 * MIB, 30 * MIB)
    assert allocator.num_alloc_retries == 1


def test_out_of_memory_is_in_the_trace_with_what_was_free() -> None:
    trace: list[TraceEntry] = []
    allocator = Allocator(AllocatorSettings(capacity_bytes=16 * MIB), trace=trace)
    with pytest.raises(OutOfDeviceMemory):
        allocator.allocate(1, 20 * MIB, stream=2)
    assert trace == [TraceEntry("oom", 16 * MIB, 20 * MIB, 2)]


def test_the_fraction_limits_what_may_be_reserved() -> None:
    allocator = full(100, per_process_memory_fraction=0.5)
    allocator.allocate(1, 50 * MIB)
    with pytest.raises(OutOfDeviceMemory):
        allocator.allocate(2, 512)


# max_split_size 32: blocks of 32 and more are oversize. max_non_split_rounding stays 20.


def test_small_requests_never_take_oversize_blocks() -> None:
    allocator = Allocator(AllocatorSettings(max_split_size_bytes=32 * MIB))
    allocator.allocate(1, 32 * MIB)
    allocator.free(1)
    allocator.allocate(2, 30 * MIB)  # would fit the 32
    assert allocator.reserved_bytes == 62 * MIB


def test_oversize_requests_take_blocks_less_than_20_mib_larger_and_do_not_split_them() -> None:
    allocator = Allocator(AllocatorSettings(max_split_size_bytes=32 * MIB))
    allocator.allocate(1, 60 * MIB)
    allocator.free(1)
    allocator.allocate(2, 40 * MIB)  # 60 is 20 more: too much
    assert allocator.reserved_bytes == 100 * MIB
    allocator.allocate(3, 42 * MIB)  # 60 is 18 more: taken whole
    assert allocator.reserved_bytes == 100 * MIB
    assert allocator.allocated_bytes == 100 * MIB
    assert allocator.requested_bytes == 82 * MIB


def test_requests_below_the_limit_still_split() -> None:
    allocator = Allocator(AllocatorSettings(max_split_size_bytes=32 * MIB))
    allocator.allocate(1, 30 * MIB)
    allocator.free(1)
    allocator.allocate(2, 12 * MIB)
    allocator.allocate(3, 18 * MIB)
    assert allocator.reserved_bytes == allocator.allocated_bytes == 30 * MIB


def test_one_oversize_block_that_is_large_enough_is_given_back_before_all() -> None:
    # Cached 34 and 70 of 110 reserved; 24 are wanted. Torch looks for one block of at least
    # max_split_size and finds 34: it goes, the 70 stay, and no retry is counted.
    allocator = full(110, max_split_size_bytes=32 * MIB)
    for key, size in ((1, 34), (2, 70)):
        allocator.allocate(key, size * MIB)
    for key in (1, 2):
        allocator.free(key)
    allocator.allocate(3, 24 * MIB)
    assert allocator.reserved_bytes == 94 * MIB
    assert allocator.num_alloc_retries == 0


def test_several_oversize_blocks_are_given_back_largest_first() -> None:
    # Cached 34, 36, 38 and a used 2 of 110. 70 are wanted: no single block holds them, so 38
    # and 36 go (74 >= 70) and the 34 stay.
    allocator = full(110, max_split_size_bytes=32 * MIB)
    allocator.allocate(0, 512)
    for key, size in ((1, 34), (2, 36), (3, 38)):
        allocator.allocate(key, size * MIB)
    for key in (1, 2, 3):
        allocator.free(key)
    allocator.allocate(4, 70 * MIB)
    assert allocator.reserved_bytes == (2 + 34 + 70) * MIB
    assert allocator.num_alloc_retries == 0


def test_oversize_blocks_that_do_not_suffice_go_and_then_everything() -> None:
    # Cached 34 (oversize) and 30; used 40. 60 are wanted of 110: 34 given back leave
    # 70 + 60 > 110, so the cache is emptied: 40 + 60.
    allocator = full(110, max_split_size_bytes=32 * MIB)
    for key, size in ((1, 40), (2, 34), (3, 30)):
        allocator.allocate(key, size * MIB)
    for key in (2, 3):
        allocator.free(key)
    allocator.allocate(4, 60 * MIB)
    assert allocator.reserved_bytes == 100 * MIB
    assert allocator.num_alloc_retries == 1


# Garbage collection: threshold 0.5 of allowed 100 (a fraction of 0.5 of a card of 200).

COLLECTING = {"garbage_collection_threshold": 0.5, "per_process_memory_fraction": 0.5}


def test_segments_as_old_as_the_average_are_collected_above_the_threshold() -> None:
    allocator = full(200, **COLLECTING)
    for key, size in ((1, 30), (2, 26)):
        allocator.allocate(key, size * MIB)  # searches 1 and 2; 56 reserved
    allocator.free(1)  # cached after 2 searches
    allocator.allocate(3, 34 * MIB)
    # Search 3 finds nothing. 56 are 6 above the threshold of 50, so the 30 (age 1, the average
    # of one block) go; then 34 come: 26 + 34.
    assert allocator.reserved_bytes == 60 * MIB
    assert allocator.num_alloc_retries == 0


def test_young_segments_stay() -> None:
    allocator = full(200, **COLLECTING)
    allocator.allocate(10, 512)  # a small segment of 2
    for key, size in ((1, 30), (2, 26)):
        allocator.allocate(key, size * MIB)
    allocator.free(1)  # cached after 2 searches
    for key in range(11, 17):
        allocator.allocate(key, 512)  # small pool: not searches of the large one
    allocator.allocate(3, 20 * MIB)  # search 3: taken from the 30, 10 left of it
    allocator.free(3)  # whole again: cached after 3 searches
    allocator.free(2)  # cached after 3 as well
    allocator.allocate(4, 28 * MIB)  # search 4: the 30 again, whole (2 MiB left: split)
    allocator.allocate(5, 24 * MIB)  # search 5: the 26, split 24 + 2
    allocator.free(5)  # cached after 5
    allocator.free(4)  # cached after 5
    allocator.allocate(6, 12 * MIB)  # search 6: from the 26; 14 left
    allocator.free(6)  # whole again: cached after 6
    allocator.allocate(7, 34 * MIB)
    # Search 7: the 30 are 2 old, the 26 are 1 old; the average is 1.5, so only the 30 go. That
    # is more than the 8 above the threshold of 50 (30 + 26 + 2 small), so it ends there.
    assert allocator.reserved_bytes == (26 + 2 + 34) * MIB


def test_searches_of_the_small_pool_make_no_segment_older() -> None:
    allocator = full(200, **COLLECTING)
    allocator.allocate(10, 512)
    for key, size in ((1, 30), (2, 26)):
        allocator.allocate(key, size * MIB)
    allocator.free(1)
    allocator.allocate(11, 512)
    allocator.free(2)
    allocator.allocate(3, 34 * MIB)  # both are one search old, as the average is: both go
    assert allocator.reserved_bytes == 36 * MIB


def test_nothing_is_collected_below_the_threshold() -> None:
    allocator = full(200, **COLLECTING)
    allocator.allocate(1, 30 * MIB)
    allocator.free(1)
    allocator.allocate(2, 34 * MIB)  # 30 reserved, threshold 50
    assert allocator.reserved_bytes == 64 * MIB


def test_the_threshold_acts_only_with_a_memory_fraction() -> None:
    # As in torch, where the limit it is a share of exists only then.
    allocator = full(100, garbage_collection_threshold=0.1)
    allocator.allocate(1, 30 * MIB)
    allocator.free(1)
    allocator.allocate(2, 34 * MIB)
    assert allocator.reserved_bytes == 64 * MIB
