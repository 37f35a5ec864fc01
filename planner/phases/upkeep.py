"""Model loading, engine start and checkpoint saving: short, and often the peak."""

from __future__ import annotations

from planner.footprint import Instant, Standing
from planner.numeric import Num
from planner.phases import host
from planner.phases.phase import PhasePlan
from planner.phases.scene import Scene, remembered


@remembered
def load(scene: Scene) -> PhasePlan:
    """Every model of the run arrives on the GPU; then a colocated engine starts."""
    largest = max(scene.roles.values(), key=lambda role: role.parameters)
    sharded = scene.fsdp or scene.zero_stage == 3
    instants = [
        Instant(
            name="weights arrive",
            terms=(largest.largest_tensor(), host.loaded(scene, largest, sharded=sharded)),
            shared=(Standing("load", engine=False),),
        )
    ]
    if scene.plan.rollout == "vllm-colocated":
        # Trainers that offload between phases have done so before the engine claims its share.
        at_start = Standing("rollout", fresh=True)
        instants.append(Instant(name="engine starts", terms=(), shared=(at_start,)))
    return PhasePlan(
        name="load", role="all", instants=tuple(instants), per_step=False, executed=False
    )


@remembered
def checkpoint(scene: Scene) -> PhasePlan:
    """The policy (or its adapters) is written to disk."""
    policy = scene.policy
    saved: Num = policy.adapters or policy.parameters
    terms = (policy.largest_tensor(), host.saved(scene, policy, saved))
    written = Instant(name="state gathered", terms=terms, shared=(Standing("checkpoint"),))
    return PhasePlan(
        name="checkpoint",
        role="policy",
        instants=(written,),
        per_step=False,
        executed=False,
    )
