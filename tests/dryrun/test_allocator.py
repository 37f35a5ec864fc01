"""The allocator's rules on traces worked out by hand; each comment says why.

Sizes in MiB unless said otherwise. A small segment has 2, a large one 20, and a request of 10
or more gets its own segment, rounded up to 2.
"""

import pytest

from planner.dryrun.allocator import Allocator, AllocatorSettings
from planner.units import KIB, MIB


def tiles(allocator: Allocator) -> list[list[tuple[int, bool]]]:
    """Each segment's blocks: bytes, and whether they are in use."""
    return [
        [(block.size_bytes, block.state == "active_allocated") for block in segment.blocks]
        for segment in allocator.segments()
    ]


@pytest.mark.parametrize(
    ("asked", "block"),
    [(1, 512), (511, 512), (512, 512), (513, 1024), (1024, 1024), (MIB - 1, MIB)],
)
def test_blocks_are_whole_multiples_of_512_bytes(asked: int, block: int) -> None:
    allocator = Allocator()
    allocator.allocate(1, asked)
    assert (allocator.requested_bytes, allocator.allocated_bytes) == (asked, block)


@pytest.mark.parametrize(
    ("asked", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),  # the largest small one
        (MIB + 1, 20 * MIB),  # rounded to 1 MiB + 512, so large
        (10 * MIB - 512, 20 * MIB),  # below 10 MiB still shares
        (10 * MIB, 10 * MIB),  # from 10 MiB on: itself, rounded to 2 MiB
        (10 * MIB + 1, 12 * MIB),
        (12 * MIB + 1, 14 * MIB),
    ],
)
def test_segment_by_size(asked: int, segment: int) -> None:
    allocator = Allocator()
    allocator.allocate(1, asked)
    assert allocator.reserved_bytes == segment


def test_small_and_large_pools_do_not_share() -> None:
    allocator = Allocator()
    allocator.allocate(1, 2 * MIB)  # a segment of 20, 18 of them left
    allocator.allocate(2, 512)  # the 18 are the large pool's: a small segment comes
    assert allocator.reserved_bytes == 22 * MIB
    assert [segment.pool for segment in allocator.segments()] == ["large", "small"]


def test_small_blocks_split_down_to_512_bytes() -> None:
    allocator = Allocator()
    allocator.allocate(1, 2 * MIB // 2)  # 1 MiB of the segment's 2
    allocator.allocate(2, MIB - 512)  # leaves 512 bytes, which is enough for a block
    assert tiles(allocator) == [[(MIB, True), (MIB - 512, True), (512, False)]]
    allocator.allocate(3, 1)
    assert allocator.reserved_bytes == 2 * MIB
    assert allocator.allocated_bytes == 2 * MIB


@pytest.mark.parametrize(
    ("asked", "block"),
    [
        (11 * MIB, 12 * MIB),  # 1 MiB left of 12: not more than 1 MiB, so not split off
        (11 * MIB - 512, 11 * MIB - 512),  # 1 MiB and 512 bytes left: split
        (12 * MIB, 12 * MIB),
    ],
)
def test_large_remainder_is_split_only_above_1_mib(asked: int, block: int) -> None:
    allocator = Allocator()
    allocator.allocate(1, asked)
    assert allocator.reserved_bytes == 12 * MIB
    # What is not split off counts as allocated; requested does not know of it.
    assert allocator.allocated_bytes == block
    assert allocator.active_bytes == block
    assert allocator.requested_bytes == asked


def test_freeing_an_unsplit_remainder_takes_it_off_again() -> None:
    allocator = Allocator()
    allocator.allocate(1, 11 * MIB)
    allocator.free(1)
    assert allocator.allocated_bytes == allocator.active_bytes == allocator.requested_bytes == 0
    assert allocator.reserved_bytes == 12 * MIB
    # Cached whole: a request of 12 finds the segment.
    allocator.allocate(2, 12 * MIB)
    assert allocator.reserved_bytes == 12 * MIB


def test_best_fit_takes_the_smallest_block_that_holds_the_request() -> None:
    allocator = Allocator()
    for key, size in ((1, 40), (2, 14), (3, 30)):
        allocator.allocate(key, size * MIB)
    for key in (1, 2, 3):
        allocator.free(key)
    # Cached: 40, 14, 30. 16 fits 30 and 40; the smaller is taken and split, 14 left.
    allocator.allocate(4, 16 * MIB)
    assert tiles(allocator) == [
        [(40 * MIB, False)],
        [(14 * MIB, False)],
        [(16 * MIB, True), (14 * MIB, False)],
    ]
    assert allocator.reserved_bytes == 84 * MIB


def test_equal_blocks_are_taken_by_address() -> None:
    allocator = Allocator()
    for key in (1, 2):
        allocator.allocate(key, 12 * MIB)
    for key in (2, 1):  # freed in the other order
        allocator.free(key)
    allocator.allocate(3, 12 * MIB)
    first, second = allocator.segments()
    assert first.blocks[0].key == 3
    assert second.blocks[0].key is None


def test_split_takes_the_front_and_caches_the_rest() -> None:
    allocator = Allocator()
    allocator.allocate(1, 3 * MIB)
    (segment,) = allocator.segments()
    used, rest = segment.blocks
    assert (used.address, used.key) == (segment.address, 1)
    assert (rest.address, rest.size_bytes) == (segment.address + 3 * MIB, 17 * MIB)


def test_a_freed_block_joins_both_free_neighbours() -> None:
    allocator = Allocator()
    for key in (1, 2, 3):
        allocator.allocate(key, 4 * MIB)  # 4 | 4 | 4 | 8 free
    allocator.free(1)
    assert tiles(allocator) == [
        [(4 * MIB, False), (4 * MIB, True), (4 * MIB, True), (8 * MIB, False)]
    ]
    allocator.free(3)  # joins the 8 behind it; block 2 parts it from the first
    assert tiles(allocator) == [[(4 * MIB, False), (4 * MIB, True), (12 * MIB, False)]]
    # 8 does not fit the 4 in front, so it comes out of the 12.
    allocator.allocate(4, 8 * MIB)
    allocator.free(4)
    allocator.free(2)  # joins both sides
    assert tiles(allocator) == [[(20 * MIB, False)]]


def test_streams_do_not_share() -> None:
    allocator = Allocator()
    allocator.allocate(1, 12 * MIB, stream=0)
    allocator.free(1)
    allocator.allocate(2, 12 * MIB, stream=7)
    assert allocator.reserved_bytes == 24 * MIB
    allocator.allocate(3, 12 * MIB, stream=0)  # finds stream 0's
    assert allocator.reserved_bytes == 24 * MIB
    assert [segment.stream for segment in allocator.segments()] == [0, 7]


def test_a_block_another_stream_uses_is_active_until_the_stream_is_waited_for() -> None:
    allocator = Allocator()
    allocator.allocate(1, 12 * MIB)
    allocator.record_stream(1, 5)
    allocator.record_stream(1, 6)
    allocator.free(1)
    # Not allocated any more, but still active, and torch still counts it as requested.
    assert allocator.allocated_bytes == 0
    assert allocator.active_bytes == allocator.requested_bytes == 12 * MIB
    assert allocator.segments()[0].blocks[0].state == "active_pending_free"
    allocator.allocate(2, 12 * MIB)  # cannot have it
    assert allocator.reserved_bytes == 24 * MIB
    allocator.synchronize(5)
    assert allocator.active_bytes == 24 * MIB  # stream 6 still uses it
    allocator.synchronize(6)
    assert allocator.active_bytes == allocator.requested_bytes == 12 * MIB
    allocator.allocate(3, 12 * MIB)
    assert allocator.reserved_bytes == 24 * MIB


def test_uses_may_be_given_with_the_free_and_the_own_stream_needs_no_wait() -> None:
    allocator = Allocator()
    allocator.allocate(1, 512, stream=3)
    allocator.record_stream(1, 3)
    allocator.free(1, events=(3,))
    assert allocator.active_bytes == 0
    allocator.allocate(2, 512)
    allocator.free(2, events=(4,))
    assert allocator.active_bytes == 512
    allocator.synchronize()
    assert allocator.active_bytes == 0


def test_a_free_that_is_not_ready_waits_for_its_own_stream() -> None:
    allocator = Allocator()
    allocator.allocate(1, 512, stream=3)
    allocator.free(1, ready=False)
    allocator.synchronize(0)
    assert (allocator.allocated_bytes, allocator.active_bytes) == (0, 512)
    allocator.synchronize(3)
    assert allocator.active_bytes == 0


def test_a_pending_block_is_not_joined() -> None:
    allocator = Allocator()
    allocator.allocate(1, 4 * MIB)
    allocator.allocate(2, 4 * MIB)
    allocator.free(1, events=(1,))
    allocator.free(2)  # joins the 12 behind it, not the 4 in front
    assert [size for size, _ in tiles(allocator)[0]] == [4 * MIB, 16 * MIB]
    allocator.synchronize()
    assert [size for size, _ in tiles(allocator)[0]] == [20 * MIB]


def test_uses_of_a_freed_key_do_not_stick_to_the_next_one() -> None:
    allocator = Allocator()
    allocator.allocate(1, 512)
    allocator.record_stream(1, 5)
    allocator.free(1)
    allocator.synchronize()
    allocator.allocate(1, 512)
    allocator.free(1)
    assert allocator.active_bytes == 0


def test_empty_cache_gives_back_only_whole_segments() -> None:
    allocator = Allocator()
    allocator.allocate(1, 4 * MIB)  # 20, half used below
    allocator.allocate(2, 4 * MIB)
    allocator.allocate(3, 30 * MIB)
    allocator.allocate(4, 512)  # 2
    for key in (1, 3, 4):
        allocator.free(key)
    assert allocator.reserved_bytes == 52 * MIB
    allocator.empty_cache()
    assert allocator.reserved_bytes == 20 * MIB  # 16 of them cached, in a used segment
    allocator.free(2)
    allocator.empty_cache()
    assert allocator.reserved_bytes == 0
    assert allocator.segments() == []


def test_empty_cache_waits_for_streams_first() -> None:
    allocator = Allocator()
    allocator.allocate(1, 12 * MIB)
    allocator.free(1, events=(1,))
    allocator.empty_cache()
    assert allocator.reserved_bytes == allocator.active_bytes == 0


def test_nothing_is_reserved_for_nothing() -> None:
    allocator = Allocator()
    allocator.allocate(1, 0)
    assert allocator.reserved_bytes == allocator.allocated_bytes == 0
    allocator.record_stream(1, 2)
    allocator.free(1)
    allocator.allocate(1, 512)  # the key is free again
    assert allocator.requested_bytes == 512


def test_keys_are_checked() -> None:
    allocator = Allocator()
    allocator.allocate(1, 512)
    with pytest.raises(ValueError, match="key: 1 is allocated already"):
        allocator.allocate(1, 512)
    with pytest.raises(ValueError, match="size_bytes: -1"):
        allocator.allocate(2, -1)
    with pytest.raises(ValueError, match="key: nothing is allocated as 2"):
        allocator.free(2)
    with pytest.raises(ValueError, match="key: nothing is allocated as 2"):
        allocator.record_stream(2, 1)


def test_peaks_are_kept_until_they_are_reset() -> None:
    allocator = Allocator()
    allocator.allocate(1, 11 * MIB)  # a block of 12
    allocator.free(1)
    allocator.allocate(2, 5 * KIB)
    assert allocator.peak_requested_bytes == 11 * MIB
    assert allocator.peak_allocated_bytes == allocator.peak_active_bytes == 12 * MIB
    assert allocator.peak_reserved_bytes == 14 * MIB
    allocator.empty_cache()
    assert allocator.peak_reserved_bytes == 14 * MIB
    allocator.reset_peaks()
    assert allocator.peak_requested_bytes == allocator.peak_allocated_bytes == 5 * KIB
    assert allocator.peak_active_bytes == 5 * KIB
    assert allocator.peak_reserved_bytes == 2 * MIB


def test_pending_blocks_count_in_the_active_peak_only() -> None:
    allocator = Allocator()
    for key in (1, 2):
        allocator.allocate(key, 12 * MIB)
        allocator.free(key, events=(1,))
    assert allocator.peak_allocated_bytes == 12 * MIB
    assert allocator.peak_active_bytes == 24 * MIB


def test_lengths_in_turn_fragment_the_cache() -> None:
    # Two tensors of 30 live at once, then two of 32, then two of 30, each freed at the end of
    # its step. 32 does not fit a cached 30, so step two buys two segments of 32. The third
    # step's 30 best-fits the 30s. 60 are used at a time, 124 held.
    allocator = Allocator()
    for step, size in enumerate((30, 32, 30)):
        for key in (1, 2):
            allocator.allocate(key, size * MIB)
        assert allocator.allocated_bytes == 2 * size * MIB
        assert allocator.reserved_bytes == (60, 124, 124)[step] * MIB
        for key in (1, 2):
            allocator.free(key)
    assert allocator.peak_allocated_bytes == 64 * MIB
    assert allocator.peak_reserved_bytes == 124 * MIB


def test_a_survivor_in_the_middle_pins_a_segment() -> None:
    # 24 cached whole; 4 and 20 split it; the 20 goes, the 4 stays: 22 does not fit the free 20.
    allocator = Allocator()
    allocator.allocate(1, 24 * MIB)
    allocator.free(1)
    allocator.allocate(2, 4 * MIB)
    allocator.allocate(3, 20 * MIB)
    allocator.free(3)
    allocator.allocate(4, 22 * MIB)
    assert allocator.allocated_bytes == 26 * MIB
    assert allocator.reserved_bytes == 46 * MIB


def test_settings_of_the_large_segment() -> None:
    settings = AllocatorSettings(
        large_segment_bytes=64 * MIB, max_non_split_rounding_bytes=64 * MIB
    )
    allocator = Allocator(settings)
    allocator.allocate(1, 2 * MIB)
    assert allocator.reserved_bytes == 64 * MIB
