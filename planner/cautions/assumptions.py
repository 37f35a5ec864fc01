"""What an answer assumes or leaves out: lines above the headline, which rests on them."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Phase
from planner.phases.scene import Scene


def assumptions(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """Each a short sentence without a full stop: what is assumed, then what that would move."""
    yield from _left_out(scene)


def _left_out(scene: Scene) -> Iterator[str]:
    """Parts of a model from outside that nothing here counts."""
    for name, moves in scene.facts.policy_model.left_out:
        yield f"{name[0].upper()}{name[1:]} is left out: {moves}"
