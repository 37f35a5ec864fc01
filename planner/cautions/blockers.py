"""Why a run cannot start, or trains nothing, whatever its peak is."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Phase
from planner.phases import engine
from planner.phases.lost_gradients import loses_gradients
from planner.phases.scene import Scene
from planner.units import read_bytes, read_gib


def blockers(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """Sentences that begin small: the verdict has one of them behind its own words."""
    yield from _engine(scene)
    yield from _host(scene, phases)
    yield from _adapters(scene)


def _engine(scene: Scene) -> Iterator[str]:
    short = engine.shortfall_bytes(scene)
    if short > 0:
        share = engine.share_bytes(scene)
        yield (
            f"the engine's share of {read_gib(share)} GiB is {read_bytes(short)} too small for its "
            "weights, its working set and one whole sequence; raise gpu_memory_utilization or "
            "rollout_tensor_parallel."
        )


def _host(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    limit = scene.plan.host_ram_per_node
    worst = max(phases, key=lambda phase: phase.host_bytes or 0)
    need = worst.host_bytes or 0
    if limit and need > limit:
        yield (
            f"a node's host RAM of {read_gib(limit)} GiB is too small: {worst.name} needs "
            f"{read_gib(need)} GiB; offload less, or take nodes with more."
        )


def _adapters(scene: Scene) -> Iterator[str]:
    if loses_gradients(scene):
        yield (
            "adapters get no gradients: the policy is its own reference, and FSDP2 keeps its "
            "weights gathered until they are offloaded; turn reshard_after_forward on."
        )
