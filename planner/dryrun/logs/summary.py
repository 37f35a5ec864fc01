"""What leaves the worker: peaks, allocator's peaks and the timeline of a log, as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from planner.dryrun.allocator import AllocatorSettings, TraceEntry
from planner.dryrun.logs.curve import Peak, peaks, timeline
from planner.dryrun.logs.log import Log, Made
from planner.dryrun.logs.replay import Replay, replay_within


def summarise(
    log: Log,
    settings: AllocatorSettings,
    *,
    workspace_bytes: int,
    trace: list[TraceEntry] | None = None,
) -> tuple[dict[str, Any], Replay]:
    """The log's answer as JSON-ready data, and the allocator's end state."""
    held = replay_within(log, settings, workspace_bytes=workspace_bytes, trace=trace)
    phases = [
        {
            **_peak(peak),
            **asdict(held.phases[peak.phase]),
            "inherited_bytes": held.phases[peak.phase].inherited_bytes,
            "live_bytes": peak.requested_bytes,
        }
        for peak in peaks(log)
    ]
    return {
        "phases": phases,
        "timeline": [asdict(point) for point in timeline(log)],
        "alloc_retries": held.alloc_retries,
        "out_of_memory": held.out_of_memory,
        "notes": log.notes,
        "events": len(log.events),
    }, held


def _peak(peak: Peak) -> dict[str, Any]:
    return {
        "phase": peak.phase,
        "scratch_bytes": peak.scratch_bytes,
        "scratch_op": peak.scratch_op,
        "host_bytes": peak.host_bytes,
        "op": plain(peak.op),
        "module": peak.module,
        "shares": [
            {"role": role, "category": category, "bytes": size}
            for (role, category), size in sorted(peak.shares.items(), key=lambda pair: -pair[1])
        ],
        "alive": [_tensor(count, made) for count, made in peak.alive],
    }


def _tensor(count: int, made: Made) -> dict[str, Any]:
    named = {name: getattr(made, name) for name in ("dtype", "role", "category", "module")}
    shape = list(made.shape)
    return {"count": count, "bytes": made.size_bytes, "shape": shape, **named, "op": plain(made.op)}


def plain(op: str) -> str:
    """An operator's name as people know it: without namespace and overload."""
    return op.rpartition("::")[2].partition(".")[0]
