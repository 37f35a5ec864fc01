"""The simulated allocator's history as a file for pytorch.org/memory_viz.

The format of ``torch.cuda.memory._snapshot()``, torch 2.13 (torch/cuda/memory.py for the
keys, torch/csrc/cuda/Module.cpp for the names of states and actions). The file holds only
dicts, lists, tuples, strings and integers.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from planner.dryrun.allocator.segments import BlockInfo, Segment
from planner.dryrun.allocator.settings import AllocatorSettings
from planner.dryrun.allocator.trace import TraceEntry

PROTOCOL = 4
"""The newest protocol that the viewer's own unpickler reads (torch/utils/viz/MemoryViz.js)."""


def snapshot(
    trace: Iterable[TraceEntry],
    segments: Iterable[Segment],
    *,
    settings: AllocatorSettings | None = None,
    device: int = 0,
) -> dict[str, Any]:
    """The dictionary that ``torch.cuda.memory._snapshot()`` would return.

    Args:
        trace: What the allocator did, oldest first; may be only its end.
        segments: What it holds now (``Allocator.segments``).
        settings: Shown by the viewer among the allocator's settings.
        device: The card the memory is shown on.
    """
    frames = _Frames()
    events = [_event(number, entry, frames) for number, entry in enumerate(trace)]
    return {
        "segments": [_segment(segment, device, frames) for segment in segments],
        "device_traces": [[] for _ in range(device)] + [events],
        "allocator_settings": {} if settings is None else _settings(settings),
        "external_annotations": [],
    }


def write_snapshot(
    path: Path,
    trace: Iterable[TraceEntry],
    segments: Iterable[Segment],
    *,
    settings: AllocatorSettings | None = None,
    device: int = 0,
) -> None:
    """Write ``snapshot`` as a pickle that the viewer opens; an existing file is replaced."""
    data = snapshot(trace, segments, settings=settings, device=device)
    path.write_bytes(pickle.dumps(data, protocol=PROTOCOL))


class _Frames(dict[str, list[dict[str, Any]]]):
    """Stack frames by label. One list for each label keeps the file small."""

    def __missing__(self, label: str) -> list[dict[str, Any]]:
        frames = [{"filename": "dry run", "line": 0, "name": label}] if label else []
        self[label] = frames
        return frames


def _event(number: int, entry: TraceEntry, frames: _Frames) -> dict[str, Any]:
    where = "device_free" if entry.action == "oom" else "addr"
    return {
        "action": entry.action,
        where: entry.address,
        "size": entry.size_bytes,
        "stream": entry.stream,
        # The simulator has no clock; the number keeps the order.
        "time_us": number,
        "frames": frames[entry.frame_name],
    }


def _segment(segment: Segment, device: int, frames: _Frames) -> dict[str, Any]:
    blocks = segment.blocks
    active = [block for block in blocks if block.state != "inactive"]
    return {
        "device": device,
        "address": segment.address,
        "total_size": segment.size_bytes,
        "allocated_size": sum(
            block.size_bytes for block in blocks if block.state == "active_allocated"
        ),
        "active_size": sum(block.size_bytes for block in active),
        "requested_size": sum(block.requested_bytes for block in active),
        "stream": segment.stream,
        "segment_type": segment.pool,
        "segment_pool_id": (0, 0),
        "is_expandable": segment.expandable,
        "frames": [],
        "blocks": [_block(block, frames) for block in blocks],
    }


def _block(block: BlockInfo, frames: _Frames) -> dict[str, Any]:
    return {
        "address": block.address,
        "size": block.size_bytes,
        "requested_size": block.requested_bytes,
        "state": block.state,
        "frames": frames[block.label],
    }


def _settings(settings: AllocatorSettings) -> dict[str, Any]:
    limit = settings.max_split_size_bytes
    return {
        "expandable_segments": settings.expandable_segments,
        "max_split_size": -1 if limit is None else limit,
        "garbage_collection_threshold": settings.garbage_collection_threshold,
    }
