"""The snapshot file against torch's own readers, and against the allocator it came from."""

import base64
import io
import json
import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import pytest
from torch.cuda import _memory_viz

from planner.dryrun.allocator import Allocator, AllocatorSettings, OutOfDeviceMemory, TraceEntry
from planner.dryrun.allocator.snapshot import snapshot, write_snapshot
from planner.units import MIB

READABLE = {
    *("APPEND", "APPENDS", "BINFLOAT", "BINGET", "BININT", "BININT1", "BININT2", "BINPUT"),
    *("BINUNICODE", "DICT", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "FRAME", "LIST", "LONG1"),
    *("LONG_BINGET", "LONG_BINPUT", "MARK", "MEMOIZE", "NEWFALSE", "NEWTRUE", "NONE", "PROTO"),
    *("SETITEM", "SETITEMS", "SHORT_BINUNICODE", "STOP", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
}
"""Pickle opcodes that the viewer's unpickler has a case for: torch/utils/viz/MemoryViz.js,
function unpickleData, read 2026-11. None of them makes an object of a class."""


class Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise AssertionError(f"the file asks for {module}.{name}")


def busy(settings: AllocatorSettings, trace: list[TraceEntry]) -> Allocator:
    """A little of everything: two streams, splits, pending blocks, a retry, labels."""
    allocator = Allocator(settings, trace=trace)
    for key in range(300):
        allocator.allocate(key, 1000 * (key + 1), label=f"layer {key % 3}")
    for key in range(0, 300, 2):
        allocator.free(key)
    allocator.allocate(1000, 30 * MIB, label="logits")
    allocator.allocate(1001, 11 * MIB, stream=4)
    allocator.allocate(1002, 5 * MIB, label="loss")
    allocator.record_stream(1002, 4)
    allocator.free(1000)
    allocator.empty_cache()
    allocator.free(1002)  # pending
    allocator.allocate(1003, 7 * MIB, label="gradient")
    return allocator


@pytest.fixture(params=["segments", "expandable"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Allocator, dict, bytes]:
    settings = AllocatorSettings(expandable_segments=request.param == "expandable")
    trace: list[TraceEntry] = []
    allocator = busy(settings, trace)
    path = tmp_path / "snapshot.pickle"
    write_snapshot(path, trace, allocator.segments(), settings=settings)
    data = path.read_bytes()
    return allocator, Plain(io.BytesIO(data)).load(), data


def test_the_file_holds_nothing_but_plain_values_the_viewer_can_read(
    made: tuple[Allocator, dict, bytes],
) -> None:
    _, _, data = made
    opcodes = list(pickletools.genops(data))
    assert {opcode.name for opcode, _, _ in opcodes} <= READABLE
    # The viewer refuses protocols outside 2 to 4.
    assert next(value for opcode, value, _ in opcodes if opcode.name == "PROTO") == 4
    # It keeps integers as doubles.
    assert max(value for _, value, _ in opcodes if isinstance(value, int)) < 2**53


def test_torch_sums_the_segments_to_the_allocators_totals(
    made: tuple[Allocator, dict, bytes],
) -> None:
    allocator, data, _ = made
    totals = dict(re.findall(r"^(\w+): ([\d.]+\w+)", _memory_viz.segsum(data), flags=re.MULTILINE))
    assert totals["total_reserved"] == _memory_viz._format_size(allocator.reserved_bytes)
    # segsum counts what the blocks in use were asked for; one block of 5 MiB is pending.
    in_use = allocator.requested_bytes - 5 * MIB
    assert totals["total_allocated"] == _memory_viz._format_size(in_use)
    assert int(re.search(r"segments: (\d+)", _memory_viz.segsum(data)).group(1)) == len(
        allocator.segments()
    )
    for name, total in (
        ("total_size", allocator.reserved_bytes),
        ("allocated_size", allocator.allocated_bytes),
        ("active_size", allocator.active_bytes),
        ("requested_size", allocator.requested_bytes),
    ):
        assert sum(segment[name] for segment in data["segments"]) == total


def test_torch_attributes_every_byte_to_a_label(made: tuple[Allocator, dict, bytes]) -> None:
    allocator, data, _ = made
    lines = _memory_viz.memory(data, format_flamegraph=lambda text: text).splitlines()
    bytes_by_stack = [(line.rsplit(" ", 1)[0], int(line.rsplit(" ", 1)[1])) for line in lines]
    assert sum(size for _, size in bytes_by_stack) == allocator.reserved_bytes
    gradient = [size for stack, size in bytes_by_stack if stack.endswith("dry run:0:gradient")]
    assert gradient == [7 * MIB]
    assert _memory_viz.segments(data, format_flamegraph=lambda text: text)


def test_torch_prints_the_trace(made: tuple[Allocator, dict, bytes]) -> None:
    _, data, _ = made
    text = _memory_viz.trace(data)
    assert text.startswith("Device 0 ----------------\n")
    assert f"{len(data['device_traces'][0])} entries" in text
    # 300 small ones, 4 large; half of the small ones and two large were asked back.
    assert len(re.findall(r"^\w+ = .*\[\d+:", text, flags=re.MULTILINE)) == 304
    assert len(re.findall(r"^del ", text, flags=re.MULTILINE)) == 152


@pytest.mark.parametrize("plot", [_memory_viz.trace_plot, _memory_viz.segment_plot])
def test_torchs_pages_carry_the_snapshot(plot: Any, made: tuple[Allocator, dict, bytes]) -> None:
    _, data, _ = made
    files = json.loads(re.search(r"const local_files = (.*)\n", plot(data)).group(1))
    assert Plain(io.BytesIO(base64.b64decode(files[0]["base64"]))).load() == data


def test_the_trace_replays_to_the_allocators_peaks(made: tuple[Allocator, dict, bytes]) -> None:
    allocator, data, _ = made
    requested = reserved = peak_requested = peak_reserved = 0
    for event in data["device_traces"][0]:
        if event["action"] == "alloc":
            requested += event["size"]
        elif event["action"] == "free_completed":
            requested -= event["size"]
        elif event["action"] in ("segment_alloc", "segment_map"):
            reserved += event["size"]
        elif event["action"] in ("segment_free", "segment_unmap"):
            reserved -= event["size"]
        peak_requested = max(peak_requested, requested)
        peak_reserved = max(peak_reserved, reserved)
    assert (requested, reserved) == (allocator.requested_bytes, allocator.reserved_bytes)
    assert peak_requested == allocator.peak_requested_bytes
    assert peak_reserved == allocator.peak_reserved_bytes


def test_every_freed_address_was_allocated(made: tuple[Allocator, dict, bytes]) -> None:
    _, data, _ = made
    live: dict[int, int] = {}
    for event in data["device_traces"][0]:
        if event["action"] == "alloc":
            assert event["addr"] not in live
            live[event["addr"]] = event["size"]
        elif event["action"] == "free_completed":
            assert live.pop(event["addr"]) == event["size"]
    blocks = [block for segment in data["segments"] for block in segment["blocks"]]
    assert live == {
        block["address"]: block["requested_size"]
        for block in blocks
        if block["state"] != "inactive"
    }
    assert {block["state"] for block in blocks} == {
        "active_allocated",
        "active_pending_free",
        "inactive",
    }


def test_keys_are_those_of_torchs_snapshots() -> None:
    trace: list[TraceEntry] = []
    allocator = Allocator(AllocatorSettings(capacity_bytes=40 * MIB), trace=trace)
    allocator.allocate(1, 4 * MIB, stream=2, label="weights")
    with pytest.raises(OutOfDeviceMemory):
        allocator.allocate(2, 30 * MIB)
    data = snapshot(trace, allocator.segments(), device=1)
    assert data["device_traces"][0] == []
    bought, used, failed = data["device_traces"][1]
    (segment,) = data["segments"]
    start = segment["address"]
    weights = [{"filename": "dry run", "line": 0, "name": "weights"}]
    assert bought == {
        "action": "segment_alloc",
        "addr": start,
        "size": 20 * MIB,
        "stream": 2,
        "time_us": 0,
        "frames": [],
    }
    assert (used["action"], used["addr"], used["frames"]) == ("alloc", start, weights)
    # 40 of which 20 are reserved.
    assert failed["action"] == "oom"
    assert (failed["device_free"], failed["size"]) == (20 * MIB, 30 * MIB)
    assert "addr" not in failed
    assert segment == {
        "device": 1,
        "address": start,
        "total_size": 20 * MIB,
        "allocated_size": 4 * MIB,
        "active_size": 4 * MIB,
        "requested_size": 4 * MIB,
        "stream": 2,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {
                "address": start,
                "size": 4 * MIB,
                "requested_size": 4 * MIB,
                "state": "active_allocated",
                "frames": weights,
            },
            {
                "address": start + 4 * MIB,
                "size": 16 * MIB,
                "requested_size": 0,
                "state": "inactive",
                "frames": [],
            },
        ],
    }


def test_a_label_is_stored_once() -> None:
    trace: list[TraceEntry] = []
    allocator = Allocator(trace=trace)
    label = "planner.methods.sft: backward of layer 27"
    for key in range(5000):
        allocator.allocate(key, 4096, label=label)
        allocator.free(key)
    assert len(trace) == 15_001
    events = snapshot(trace, allocator.segments())["device_traces"][0]
    # One list of frames for the label and one for none, written once each.
    assert len({id(event["frames"]) for event in events}) == 2
