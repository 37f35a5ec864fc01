"""Phases of a GRADE step: generation, reward and KL term are one forward."""

from __future__ import annotations

from planner.methods.grade import work
from planner.methods.grade.backward import backward_instants
from planner.methods.grade.bundles import Held
from planner.methods.grade.forward import forward_instants
from planner.phases import update, upkeep
from planner.phases.phase import PhasePlan
from planner.phases.scene import Scene, remembered
from planner.values.step_phases import POLICY_BACKWARD, POLICY_FORWARD


def phases(scene: Scene) -> tuple[PhasePlan, ...]:
    """Load, policy forward, policy backward, optimizer step, checkpoint."""
    return (
        upkeep.load(scene),
        *_graph(scene),
        update.optimizer_phase(scene),
        upkeep.checkpoint(scene),
    )


@remembered
def _graph(scene: Scene) -> tuple[PhasePlan, ...]:
    """The forward of all rounds and its backward, which have most in common."""
    held, role = Held(scene), scene.policy.name
    return (
        PhasePlan(
            kind=POLICY_FORWARD,
            role=role,
            instants=tuple(forward_instants(held)),
            work=work.forward(scene),
        ),
        PhasePlan(
            kind=POLICY_BACKWARD,
            role=role,
            instants=tuple(backward_instants(held)),
            work=work.backward(scene),
        ),
    )
