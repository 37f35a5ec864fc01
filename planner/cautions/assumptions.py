"""What an answer assumes or leaves out: lines above the headline, which rests on them."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Phase
from planner.phases.scene import Scene
from planner.plan.loss import foreign


def assumptions(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """Each a short sentence without a full stop: what is assumed, then what that would move."""
    yield from _loss(scene)


def _loss(scene: Scene) -> Iterator[str]:
    """A loss that the plan's framework has not, or not quite."""
    if named := foreign(scene.plan):
        yield f"loss: {named}"
