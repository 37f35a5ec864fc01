"""What holds for every trace: the counters agree, blocks tile segments, everything goes back.

A second allocator, written to be obvious and slow, runs beside the first.
"""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.dryrun.allocator import Allocator, AllocatorSettings, OutOfDeviceMemory
from planner.units import MIB

BYTES = st.one_of(
    st.integers(0, 4096),
    st.integers(0, 3 * MIB),
    st.integers(0, 45 * MIB),
    st.sampled_from(
        [512, 513, MIB - 512, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 11 * MIB, 12 * MIB, 20 * MIB]
    ),
)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), BYTES, st.integers(0, 1)),
        st.tuples(st.just("free"), st.integers(0, 1000), st.integers(0, 3)),
        st.tuples(st.just("record"), st.integers(0, 1000), st.integers(0, 2)),
        st.tuples(st.just("synchronize"), st.sampled_from([None, 0, 1, 2]), st.just(0)),
        st.tuples(st.just("empty"), st.just(0), st.just(0)),
        st.tuples(st.just("switch"), st.just(0), st.just(0)),
    ),
    max_size=60,
)

SETTINGS = st.sampled_from(
    [
        AllocatorSettings(),
        AllocatorSettings(expandable_segments=True),
        AllocatorSettings(expandable_segments=True, capacity_bytes=150 * MIB),
        AllocatorSettings(capacity_bytes=100 * MIB),
        AllocatorSettings(max_split_size_bytes=22 * MIB, capacity_bytes=120 * MIB),
        AllocatorSettings(roundup_power2_divisions=4),
        AllocatorSettings(
            capacity_bytes=200 * MIB,
            per_process_memory_fraction=0.6,
            garbage_collection_threshold=0.3,
        ),
    ]
)


def check(allocator: Allocator, live: dict[int, int], pending: int) -> None:
    """The counters against each other, the segments, and what the test knows is alive."""
    assert allocator.requested_bytes == sum(live.values()) + pending
    assert allocator.reserved_bytes >= allocator.active_bytes >= allocator.allocated_bytes
    assert allocator.active_bytes >= allocator.requested_bytes
    assert allocator.allocated_bytes >= sum(live.values())
    assert allocator.peak_reserved_bytes >= allocator.reserved_bytes
    assert allocator.peak_allocated_bytes >= allocator.allocated_bytes
    assert allocator.peak_active_bytes >= allocator.active_bytes
    assert allocator.peak_requested_bytes >= allocator.requested_bytes
    end = 0
    found: dict[int, int] = {}
    states = {"active_allocated": 0, "active_pending_free": 0, "inactive": 0}
    for segment in allocator.segments():
        assert segment.address >= end  # segments do not overlap
        address = segment.address
        for before, block in zip((None, *segment.blocks), segment.blocks, strict=False):
            assert block.address == address  # blocks tile
            assert block.size_bytes > 0 and block.size_bytes % 512 == 0
            assert block.size_bytes >= block.requested_bytes
            # Two free neighbours would have been joined.
            assert before is None or {before.state, block.state} != {"inactive"}
            address += block.size_bytes
            states[block.state] += block.size_bytes
            if block.key is not None:
                found[block.key] = block.requested_bytes
        assert address == segment.address + segment.size_bytes
        end = address
    assert found == {key: size for key, size in live.items() if size}
    assert states["active_allocated"] == allocator.allocated_bytes
    assert states["active_allocated"] + states["active_pending_free"] == allocator.active_bytes
    assert sum(states.values()) == allocator.reserved_bytes


@settings(max_examples=150, deadline=None)
@given(chosen=SETTINGS, steps=STEPS)
def test_every_trace(chosen: AllocatorSettings, steps: list[tuple]) -> None:
    allocator = Allocator(chosen)
    live: dict[int, int] = {}
    streams: dict[int, int] = {}
    uses: dict[int, set[int]] = {}
    pending: list[tuple[int, set[int]]] = []
    retries = 0
    for key, (kind, number, stream) in enumerate(steps):
        chosen_key = sorted(live)[number % len(live)] if live and kind in ("free", "record") else -1
        if kind == "allocate":
            try:
                allocator.allocate(key, number, stream)
            except OutOfDeviceMemory:
                assert chosen.capacity_bytes is not None
            else:
                live[key], streams[key], uses[key] = number, stream, set()
        elif kind == "free" and chosen_key >= 0:
            events = (stream,) if stream < 3 else ()
            allocator.free(chosen_key, events=events)
            waits = (uses[chosen_key] | set(events)) - {streams[chosen_key]}
            size = live.pop(chosen_key)
            if waits and size:
                pending.append((size, waits))
        elif kind == "record" and chosen_key >= 0:
            allocator.record_stream(chosen_key, stream)
            uses[chosen_key].add(stream)
        elif kind == "synchronize":
            allocator.synchronize(number)
            for _, waits in pending:
                waits.discard(number)
            pending = [entry for entry in pending if entry[1] and number is not None]
        elif kind == "empty":
            allocator.empty_cache()
            pending.clear()
        elif kind == "switch":
            allocator.expandable_segments = not allocator.expandable_segments
        if allocator.num_alloc_retries > retries:
            retries = allocator.num_alloc_retries
            pending.clear()  # a retry waits for every stream
        check(allocator, live, sum(size for size, _ in pending))
        if chosen.capacity_bytes is not None:
            assert allocator.reserved_bytes <= chosen.capacity_bytes
    for key in list(live):
        allocator.free(key)
    allocator.empty_cache()
    assert allocator.reserved_bytes == allocator.active_bytes == allocator.requested_bytes == 0
    assert allocator.segments() == []


@dataclass
class Slow:
    """The rules without expandable segments or limits: lists, scanned from end to end."""

    segments: list[tuple[str, int, list[list]]] = field(default_factory=list)
    """Pool, stream, and blocks: size, key or None."""

    def allocate(self, key: int, size_bytes: int, stream: int) -> None:
        size = max(-(-size_bytes // 512), 1) * 512
        pool = "small" if size <= MIB else "large"
        fits = [
            (blocks[place][0], number, place)
            for number, (kind, of, blocks) in enumerate(self.segments)
            for place in range(len(blocks))
            if (kind, of) == (pool, stream)
            and blocks[place][1] is None
            and blocks[place][0] >= size
        ]
        if not fits:
            if pool == "small":
                bought = 2 * MIB
            else:
                bought = 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            self.segments.append((pool, stream, [[bought, None]]))
            fits = [(bought, len(self.segments) - 1, 0)]
        found, number, place = min(fits)
        blocks = self.segments[number][2]
        rest = found - size
        if rest >= 512 if pool == "small" else rest > MIB:
            blocks[place : place + 1] = [[size, key], [rest, None]]
        else:
            blocks[place][1] = key

    def free(self, key: int) -> None:
        for number, (pool, stream, blocks) in enumerate(self.segments):
            joined: list[list] = []
            for size, owner in blocks:
                if owner == key:
                    owner = None
                if joined and owner is None and joined[-1][1] is None:
                    joined[-1][0] += size
                else:
                    joined.append([size, owner])
            self.segments[number] = (pool, stream, joined)

    def empty_cache(self) -> None:
        self.segments = [part for part in self.segments if [part[2][0][1]] != [None] or part[2][1:]]


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 9), BYTES.filter(bool), st.integers(0, 1)), max_size=120
    )
)
def test_the_same_blocks_as_the_slow_one(steps: list[tuple[int, int, int]]) -> None:
    fast, slow = Allocator(), Slow()
    live: list[int] = []
    for key, (kind, number, stream) in enumerate(steps):
        if kind == 0:
            fast.empty_cache()
            slow.empty_cache()
        elif kind > 4 or not live:
            fast.allocate(key, number, stream)
            slow.allocate(key, number, stream)
            live.append(key)
        else:
            gone = live.pop(number % len(live))
            fast.free(gone)
            slow.free(gone)
        assert [
            (part.pool, part.stream, [[block.size_bytes, block.key] for block in part.blocks])
            for part in fast.segments()
        ] == slow.segments
