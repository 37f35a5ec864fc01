"""Expandable segments, worked out by hand: pages of 2 MiB (small pool) and 20 MiB (large)."""

import pytest

from planner.dryrun.allocator import Allocator, AllocatorSettings, OutOfDeviceMemory, TraceEntry
from planner.units import MIB

ON = AllocatorSettings(expandable_segments=True)


def sizes(allocator: Allocator) -> list[list[int]]:
    """Block sizes in MiB, by segment (a stretch of mapped pages)."""
    return [[block.size_bytes // MIB for block in part.blocks] for part in allocator.segments()]


def test_one_segment_grows_by_pages() -> None:
    allocator = Allocator(ON)
    allocator.allocate(1, 12 * MIB)  # one page of 20: 12 and 8 free
    assert allocator.reserved_bytes == 20 * MIB
    allocator.allocate(2, 30 * MIB)  # the 8 and 22 more, so two pages: 8 + 40 = 30 + 18 free
    assert allocator.reserved_bytes == 60 * MIB
    assert sizes(allocator) == [[12, 30, 18]]
    assert allocator.segments()[0].expandable
    allocator.allocate(3, 18 * MIB)  # fits what is mapped
    assert allocator.reserved_bytes == 60 * MIB


def test_the_small_pool_has_a_range_and_pages_of_its_own() -> None:
    allocator = Allocator(ON)
    allocator.allocate(1, 512)
    assert allocator.reserved_bytes == 2 * MIB
    allocator.allocate(2, 2 * MIB)
    assert allocator.reserved_bytes == 22 * MIB
    assert [part.pool for part in allocator.segments()] == ["small", "large"]


def test_each_stream_has_a_range_of_its_own() -> None:
    allocator = Allocator(ON)
    for stream in (0, 1):
        allocator.allocate(stream, 12 * MIB, stream=stream)
    assert allocator.reserved_bytes == 40 * MIB
    assert [part.stream for part in allocator.segments()] == [0, 1]


def test_large_blocks_split_down_to_512_bytes() -> None:
    allocator = Allocator(ON)
    allocator.allocate(1, 20 * MIB - 512)
    allocator.allocate(2, 11 * MIB)
    # 20 - 512 B, 11 and what is left of two pages: the 512 bytes were joined to the new page.
    assert allocator.allocated_bytes == 31 * MIB - 512
    assert allocator.reserved_bytes == 40 * MIB


def test_growing_lengths_do_not_fragment() -> None:
    # 30, then 32, then 34, each freed before the next: the range grows where segments of their
    # own would pile up to 96. 34 need two pages.
    allocator = Allocator(ON)
    for size in (30, 32, 34):
        allocator.allocate(1, size * MIB)
        allocator.free(1)
    assert allocator.peak_reserved_bytes == 40 * MIB


def test_empty_cache_unmaps_whole_pages_inside_free_blocks() -> None:
    allocator = Allocator(ON)
    allocator.allocate(1, 12 * MIB)  # 0..12 of page 0
    allocator.allocate(2, 63 * MIB)  # 12..75, pages 0 to 3
    allocator.allocate(3, 4 * MIB)  # 75..79
    assert allocator.reserved_bytes == 80 * MIB
    allocator.free(2)
    allocator.empty_cache()
    # Free: 12..75. Whole pages in it: 20..60. They go; 12..20 and 60..75 stay, and 79..80.
    assert allocator.reserved_bytes == 40 * MIB
    assert sizes(allocator) == [[12, 8], [15, 4, 1]]
    # 16 fit nowhere; the lowest room is the hole: 12..20 and one page of it.
    allocator.allocate(4, 16 * MIB)
    assert sizes(allocator) == [[12, 16, 12], [15, 4, 1]]
    assert allocator.reserved_bytes == 60 * MIB
    # 30 need the 12 left, the page 40..60 and 3 of the 15 behind it.
    allocator.allocate(5, 30 * MIB)
    assert sizes(allocator) == [[12, 16, 30, 17, 4, 1]]
    assert allocator.reserved_bytes == 80 * MIB


def test_a_free_block_without_a_whole_page_is_kept() -> None:
    allocator = Allocator(ON)
    allocator.allocate(1, 12 * MIB)
    allocator.allocate(2, 20 * MIB)  # 12..32: no page lies inside it
    allocator.allocate(3, 8 * MIB)
    allocator.free(2)
    allocator.empty_cache()
    assert allocator.reserved_bytes == 40 * MIB
    assert sizes(allocator) == [[12, 20, 8]]


def test_freeing_everything_and_emptying_leaves_nothing() -> None:
    allocator = Allocator(ON)
    for key, size in enumerate((512, 12 * MIB, 70 * MIB)):
        allocator.allocate(key, size)
    for key in range(3):
        allocator.free(key)
    allocator.empty_cache()
    assert allocator.reserved_bytes == 0
    assert allocator.segments() == []
    allocator.allocate(9, 12 * MIB)  # a new range
    assert allocator.reserved_bytes == 20 * MIB


def test_the_end_of_the_range_is_used_last() -> None:
    allocator = Allocator(ON)
    allocator.allocate(1, 13 * MIB)
    allocator.allocate(2, 2 * MIB)
    allocator.allocate(3, 2 * MIB)  # 13 | 2 | 2 | 3 free, and addresses without end
    allocator.free(1)
    # Best fit for 2 would be the 3, but they can grow: the 13 in front are smaller than that.
    allocator.allocate(4, 2 * MIB)
    assert sizes(allocator) == [[2, 11, 2, 2, 3]]
    assert allocator.reserved_bytes == 20 * MIB


def test_switched_off_later_allocations_do_not_use_its_blocks() -> None:
    allocator = Allocator(ON)
    allocator.allocate(1, 12 * MIB)
    allocator.allocate(2, 14 * MIB)  # 12 | 14 | 14 free of two pages
    allocator.free(1)
    allocator.expandable_segments = False
    allocator.allocate(3, 12 * MIB)  # a segment of its own
    assert allocator.reserved_bytes == 52 * MIB
    allocator.free(3)
    allocator.allocate(4, 12 * MIB)  # that one, although a 12 and a 14 of the range fit too
    assert sizes(allocator) == [[12, 14, 14], [12]]
    assert allocator.segments()[1].blocks[0].key == 4
    # With the switch off, a large remainder must again be above 1 MiB.
    allocator.free(4)
    allocator.allocate(5, 11 * MIB)
    assert allocator.allocated_bytes == 26 * MIB


def test_switched_on_cached_segments_are_still_used_and_split_finely() -> None:
    allocator = Allocator()
    allocator.allocate(1, 12 * MIB)
    allocator.free(1)
    allocator.expandable_segments = True
    allocator.allocate(2, 11 * MIB)  # the cached 12; torch asks the setting, not the block
    assert allocator.reserved_bytes == 12 * MIB
    assert allocator.allocated_bytes == 11 * MIB
    allocator.allocate(3, 11 * MIB)
    assert allocator.reserved_bytes == 32 * MIB


def test_capacity_counts_pages() -> None:
    allocator = Allocator(AllocatorSettings(expandable_segments=True, capacity_bytes=50 * MIB))
    allocator.allocate(1, 21 * MIB)  # two pages
    with pytest.raises(OutOfDeviceMemory):
        allocator.allocate(2, 20 * MIB)  # 19 are left; one page more would be 60
    allocator.allocate(3, 19 * MIB)
    assert allocator.reserved_bytes == 40 * MIB
    assert allocator.num_alloc_retries == 1


def test_memory_pressure_unmaps_another_streams_pages() -> None:
    allocator = Allocator(AllocatorSettings(expandable_segments=True, capacity_bytes=50 * MIB))
    allocator.allocate(1, 40 * MIB)
    allocator.free(1)
    allocator.allocate(2, 40 * MIB, stream=1)
    assert allocator.reserved_bytes == 40 * MIB
    assert allocator.num_alloc_retries == 1


def test_a_hole_is_filled_before_the_end_grows() -> None:
    allocator = Allocator(ON)
    allocator.allocate(1, 12 * MIB)
    allocator.allocate(2, 28 * MIB)
    allocator.allocate(3, 12 * MIB)  # 12 | 28 | 12 | 8 free, three pages
    allocator.free(2)
    allocator.empty_cache()  # 20..40 go: 12 | 8 free | hole | 12 | 8 free
    assert allocator.reserved_bytes == 40 * MIB
    allocator.allocate(4, 26 * MIB)  # 8 + the page of the hole
    assert allocator.reserved_bytes == 60 * MIB
    assert sizes(allocator) == [[12, 26, 2, 12, 8]]


def test_unmapped_pages_become_one_stretch_again() -> None:
    allocator = Allocator(ON)
    for key, size in ((1, 12), (2, 28), (3, 12)):
        allocator.allocate(key, size * MIB)
    allocator.free(2)
    allocator.empty_cache()  # 12 | 8 free | hole of 20 | 12 | 8 free
    allocator.free(3)
    allocator.empty_cache()  # 12 | 8 free | unmapped to the end
    assert sizes(allocator) == [[12, 8]]
    allocator.allocate(4, 48 * MIB)  # the 8 and two pages, to their end
    allocator.allocate(5, 12 * MIB)  # one page more
    assert sizes(allocator) == [[12, 48, 12, 8]]
    assert allocator.reserved_bytes == 80 * MIB
    allocator.allocate(6, 40 * MIB)  # the 8 and two pages, 8 of them left
    assert sizes(allocator) == [[12, 48, 12, 40, 8]]


def test_pages_mapped_before_a_failure_are_held_until_the_cache_is_emptied() -> None:
    allocator = Allocator(AllocatorSettings(expandable_segments=True, capacity_bytes=70 * MIB))
    for key, size in ((1, 12), (2, 28), (3, 12)):
        allocator.allocate(key, size * MIB)
    allocator.free(2)
    allocator.empty_cache()  # 12 | 8 free | hole of 20 | 12 | 8 free
    allocator.free(3)  # 12 | 8 free | hole of 20 | 20 free | unmapped to the end
    allocator.reset_peaks()
    with pytest.raises(OutOfDeviceMemory):
        # 60 need the hole (60 reserved) and a page at the end (80: too many). Then the cache is
        # emptied down to page 0, and 52 more at once need three pages: 80 again.
        allocator.allocate(4, 60 * MIB)
    assert allocator.peak_reserved_bytes == 60 * MIB
    assert allocator.reserved_bytes == 20 * MIB


def test_pages_come_and_go_in_the_trace() -> None:
    trace: list[TraceEntry] = []
    allocator = Allocator(ON, trace=trace)
    allocator.allocate(1, 30 * MIB, label="logits")
    allocator.free(1)
    allocator.empty_cache()
    start = trace[0].address
    assert [(entry.action, entry.address - start, entry.size_bytes) for entry in trace] == [
        ("segment_map", 0, 40 * MIB),
        ("alloc", 0, 30 * MIB),
        ("free_requested", 0, 30 * MIB),
        ("free_completed", 0, 30 * MIB),
        ("segment_unmap", 0, 40 * MIB),
    ]
    assert trace[1].frame_name == "logits"


def test_a_request_larger_than_any_card() -> None:
    allocator = Allocator(ON)
    allocator.allocate(1, 3 << 40)
    assert allocator.reserved_bytes == -(-(3 << 40) // (20 * MIB)) * 20 * MIB
