"""Model loading, engine start and checkpoint saving: short, and often the peak."""

from __future__ import annotations

from planner.footprint import Instant, Term
from planner.formulas import sharding
from planner.numeric import Num
from planner.phases import engine, host
from planner.phases.baseline import resident
from planner.phases.phase import PhasePlan
from planner.phases.scene import Scene


def load(scene: Scene) -> PhasePlan:
    """Every model of the run arrives on the GPU; then a colocated engine starts."""
    base = resident(scene, "load")
    largest = max(scene.roles.values(), key=lambda role: role.parameters)
    sharded = scene.fsdp or scene.zero_stage == 3
    instants = [
        Instant(
            name="weights arrive",
            terms=(
                *(term for term in base if term.role != engine.ROLE),
                largest.largest_tensor(),
                host.loaded(scene, largest, sharded=sharded),
            ),
        )
    ]
    if scene.plan.rollout == "vllm-colocated":
        # Trainers that offload between phases have done so before the engine claims its share.
        at_start = resident(scene, "rollout")
        instants.append(
            Instant(
                name="engine starts",
                terms=tuple(
                    term
                    for term in at_start
                    # No step has left these behind yet.
                    if term.category != "optimizer" and term.name not in sharding.LEFT
                ),
            )
        )
    return PhasePlan(
        name="load", role="all", instants=tuple(instants), per_step=False, executed=False
    )


def checkpoint(scene: Scene) -> PhasePlan:
    """The policy (or its adapters) is written to disk."""
    policy = scene.policy
    saved: Num = policy.adapters or policy.parameters
    terms: tuple[Term, ...] = (
        *resident(scene, "checkpoint"),
        policy.largest_tensor(),
        host.saved(scene, policy, saved),
    )
    return PhasePlan(
        name="checkpoint",
        role="policy",
        instants=(Instant(name="state gathered", terms=terms),),
        per_step=False,
        executed=False,
    )
