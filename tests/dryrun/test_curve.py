"""Peaks, shares and the timeline of logs written by hand."""

from __future__ import annotations

from planner.dryrun.allocator import AllocatorSettings
from planner.dryrun.logs.curve import peaks, timeline
from planner.dryrun.logs.log import BIRTH, DEATH, PHASE, SCRATCH, STEP, Log, Made
from planner.dryrun.logs.replay import replay
from planner.dryrun.logs.summary import summarise
from planner.units import MIB


def made(log: Log, key: int, size: int, kind: str, *, host: bool = False) -> tuple[int, int, int]:
    op = f"aten::op{key}.Tensor"
    log.made[key] = Made(size, op, "layers.0", "policy", kind, (size,), "int8", host=host)
    return (BIRTH, key, size)


def hand_made() -> Log:
    """Weights of 100; a first step that peaks at 400, and a second at 100 + 30 + 20 + scratch."""
    log = Log()
    forward = log.name("policy forward")
    kernel = log.name("aten.kernel")
    log.events = [
        made(log, 0, 100, "parameters"),
        (STEP, 0, 0),
        (PHASE, forward, 1),
        made(log, 1, 300, "activations"),
        (DEATH, 1, 300),
        (PHASE, forward, 0),
        (STEP, 1, 0),
        (PHASE, forward, 1),
        made(log, 2, 30, "activations"),
        made(log, 3, 20, "logits"),
        made(log, 4, 1000, "activations", host=True),
        (SCRATCH, kernel, 5),
        (DEATH, 3, 20),
        (PHASE, forward, 0),
        (DEATH, 2, 30),
        (DEATH, 4, 1000),
    ]
    return log


def test_only_the_last_step_counts_and_scratch_stands_beside_what_is_alive() -> None:
    (peak,) = peaks(hand_made())
    assert (peak.requested_bytes, peak.scratch_bytes, peak.scratch_op) == (150, 5, "aten.kernel")
    assert peak.total_bytes == 155
    assert peak.host_bytes == 1000
    assert peak.shares == {
        ("policy", "parameters"): 100,
        ("policy", "activations"): 30,
        ("policy", "logits"): 20,
    }
    assert [made.size_bytes for _, made in peak.alive] == [100, 30, 20]


def test_the_timeline_is_of_the_last_step_by_category() -> None:
    points = timeline(hand_made(), points=100)
    assert [sum(point.by_category.values()) for point in points] == [100, 130, 150]
    assert points[-1].by_category == {"parameters": 100, "activations": 30, "logits": 20}
    assert {point.phase for point in points} == {"policy forward"}


def test_the_allocator_sees_device_storages_rounded_and_workspaces() -> None:
    held = replay(hand_made(), AllocatorSettings(), workspace_bytes=8 * MIB)
    phase = held.phases["policy forward"]
    assert phase.requested_bytes == 16 * MIB + 155
    # 100, 30, 20 and the kernel's 5 bytes take a block of 512 each.
    assert phase.allocated_bytes == 16 * MIB + 4 * 512
    # Both workspaces share one 20 MiB segment, small tensors one of 2 MiB.
    assert phase.reserved_bytes == 22 * MIB


def test_the_summary_is_plain_data_with_plain_names() -> None:
    found, _ = summarise(hand_made(), AllocatorSettings(), workspace_bytes=0)
    (phase,) = found["phases"]
    assert phase["live_bytes"] == 150
    assert phase["alive"][0]["op"] == "op0"
    assert [share["bytes"] for share in phase["shares"]] == [100, 30, 20]
