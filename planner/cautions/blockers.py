"""Why a run trains nothing, or cannot go on, whatever it needs of any limit."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Phase
from planner.phases.lost_gradients import loses_gradients
from planner.phases.scene import Scene


def blockers(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """Sentences that begin small: the headline has the first clause of one behind its own words."""
    yield from _adapters(scene)


def _adapters(scene: Scene) -> Iterator[str]:
    if loses_gradients(scene):
        yield (
            "adapters get no gradients: the policy is its own reference, and FSDP2 keeps its "
            "weights unsharded until they are offloaded; turn reshard_after_forward on."
        )
