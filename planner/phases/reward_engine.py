"""The engine that serves the reward model, where a framework has one: awake for one phase a step.

Asleep it keeps what every engine keeps of a card, and its weights wait in pinned host RAM (level
1: nobody sends them again).
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog import device_constants
from planner.formulas import allocator, generation
from planner.numeric import ceil_div
from planner.phases import host
from planner.phases.phase import PhasePlan, scoring
from planner.phases.role import Role
from planner.phases.scene import Scene
from planner.term import Instant, Standing, Term
from planner.values.dtypes import BYTES
from planner.values.step_phases import StepPhase

ROLE = "reward model"


def scored(
    scene: Scene, kind: StepPhase, role: Role, kept: tuple[Term, ...] = ()
) -> PhasePlan:
    """It scores all responses; ``kept`` stands beside it in the trainer's process."""
    share = scene.framework.reward_engine["gpu_memory_utilization"]
    awake = generation.REWARD_ENGINE(
        ROLE,
        card_bytes=scene.facts.budget_bytes,
        share_percent=round(100 * share),
        kept_bytes=device_constants.ENGINE_COMMUNICATORS.bounded.centre,
    )
    instant = Instant(name="vLLM awake", terms=(awake,), shared=(Standing(kind.moment), kept))
    return PhasePlan(
        kind=kind,
        role=role.name,
        instants=(instant,),
        work=(scoring(scene, role, scored_tokens=0),),
        executed=False,
    )


def asleep(scene: Scene) -> Iterator[Term]:
    """What it keeps of the trainer's card, and of host RAM, all the time."""
    engine, reward = scene.framework.reward_engine, scene.reward
    if not engine or reward is None:
        return
    libraries = device_constants.ENGINE_COMMUNICATORS.bounded
    yield allocator.context(ROLE, scene.facts.gpu)
    yield generation.ENGINE_LIBRARIES(
        ROLE, library_bytes=libraries.centre, between=(libraries.low, libraries.high)
    )
    yield generation.ENGINE_BUFFERS(
        ROLE,
        max_num_batched_tokens=engine["max_num_batched_tokens"],
        hidden=reward.arch.hidden,
        value_bytes=BYTES[engine["dtype"]],
    )
    yield host.offloaded(
        scene,
        ROLE,
        "reward engine's weights, asleep in host RAM",
        ceil_div(
            reward.parameters * BYTES[engine["dtype"]], engine["rollout_tensor_parallel"]
        ),
        reward.layout,
    )
