"""Phases of supervised fine-tuning."""

from __future__ import annotations

from planner.phases import update, upkeep
from planner.phases.phase import PhasePlan
from planner.phases.scene import Scene


def phases(scene: Scene) -> tuple[PhasePlan, ...]:
    """Load, forward, backward, optimizer step, checkpoint."""
    return (upkeep.load(scene), *update.policy_phases(scene), upkeep.checkpoint(scene))
