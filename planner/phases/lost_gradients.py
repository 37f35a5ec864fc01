"""Adapters that nothing trains, though the run goes on.

peft takes the gradients from the parameters that a module has, and gives them back to those it has
then: before the reference's forward these are FSDP2's shards, and behind it gathered weights, where
nothing reshards them. What moves weights to host RAM goes back to the shards, and the policy's
forward follows those (docs/memory-notes.md; tests/frameworks/test_lost_gradients.py).
"""

from __future__ import annotations

from planner.phases.scene import Scene
from planner.plan import references
from planner.values.sharding import sharding_of


def loses_gradients(scene: Scene) -> bool:
    """Whether the policy answers as its own reference, and its adapters lose their gradients."""
    plan = scene.plan
    stays = sharding_of(plan).fsdp == 2 and not plan.reshard_after_forward
    return stays and scene.setup["policy"].waits == "host" and references.on_policy(plan)
