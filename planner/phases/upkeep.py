"""Model loading, engine start and checkpoint saving: short, and often the peak."""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas import sharding
from planner.numeric import Num, ceil_div, maximum
from planner.phases import baseline, host, units
from planner.phases.phase import PhasePlan, Work, occasions
from planner.phases.role import Role
from planner.phases.scene import Scene, remembered
from planner.term import Instant, Standing, Term
from planner.values.sharding import sharding_of
from planner.values.step_phases import CHECKPOINT, GENERATING, LOAD


@remembered
def load(scene: Scene) -> PhasePlan:
    """Every model of the run arrives on the GPU; then a colocated engine starts."""
    ours = [role for role in scene.roles.values() if scene.setup[role.name].waits != "engine"]
    largest = max(ours, key=lambda role: role.parameters)
    instants = [
        Instant(
            name="weights loading",
            terms=(largest.largest_tensor(), host.loaded(scene, largest)),
            shared=(Standing(LOAD.moment, engine=False),),
        )
    ]
    if scene.plan.rollout == "vllm-colocated":
        # Trainers that offload between phases have done so before the engine claims its share.
        at_start = Standing(GENERATING, fresh=True)
        instants.append(Instant(name="vLLM starting", terms=(), shared=(at_start,)))
    return PhasePlan(
        kind=LOAD, role="all", instants=tuple(instants), per_step=False, executed=False
    )


@remembered
def checkpoint(scene: Scene) -> PhasePlan:
    """The policy (or its adapters) is written to disk."""
    policy, often = scene.policy, occasions(scene.plan, scene.plan.save_steps)
    numbers, width = _trained(scene, policy)
    terms = (policy.largest_tensor(), host.saved(scene, policy, numbers, width))
    standing = (Standing(CHECKPOINT.moment),)
    instants: tuple[Instant, ...] = (Instant(name="state gathered", terms=terms, shared=standing),)
    if host.gathers_state(scene):
        state = Instant(
            name="optimizer state gathered",
            terms=(*_state_in_transit(scene, policy), host.saved_state(scene, policy)),
            shared=standing,
        )
        # Of equal peaks the first is shown: the one that needs more host RAM.
        more = host.state_bytes(scene) > width
        instants = (state, *instants) if more else (*instants, state)
    return PhasePlan(
        kind=CHECKPOINT,
        role="policy",
        instants=instants,
        work=(Work(role=policy, run="write", host_bytes=_written_bytes(scene)),) * (often > 0),
        per_step=False,
        occasions=often,
        executed=False,
    )


def _state_in_transit(scene: Scene, role: Role) -> Iterator[Term]:
    """What the GPU holds of the optimizer's state on its way; of adapters a few MB."""
    width = host.moment_bytes(scene)
    if sharding_of(scene.plan).fsdp == 1:
        layer = units.of_layer(scene, role)
        # The root has adapters in none of its weights, and so no state.
        unit = layer if role.adapters else maximum(layer, units.of_root(scene, role))
        yield sharding.STATE_OF_UNIT(
            role.name, unit_parameters=unit, shards=scene.shards_of("weights"), value_bytes=width
        )
    elif not role.adapters:
        yield sharding.LARGEST_TENSOR(
            role.name, largest_weight=role.largest_weight, value_bytes=width
        )


def _trained(scene: Scene, role: Role) -> tuple[Num, int]:
    """How many numbers of a role are trained, adapters alone where it has them; bytes of one."""
    if role.adapters:
        return role.adapters, baseline.adapter_bytes(scene)
    return role.parameters, role.weight_bytes


def _written_bytes(scene: Scene) -> Num:
    """What the first node's disk takes of a checkpoint: of every model that trains.

    A state dict is written by rank 0, shards by every rank.
    """
    written = scene.framework.checkpoint
    shards = scene.fsdp and written == "shards"
    found: Num = 0
    for role in scene.roles.values():
        if not role.trained:
            continue
        numbers, width = (role.parameters, role.weight_bytes) if shards else _trained(scene, role)
        times = 1 + _writes_again(scene)
        found = found + times * _on_node(scene, numbers * width, split=shards)
        if written != "weights":
            states = role.trainable * host.state_bytes(scene)
            found = found + _on_node(scene, states, split=shards or scene.zero_stage > 0)
    return found


def _writes_again(scene: Scene) -> bool:
    """DeepSpeed's stage 3 has its weights in the optimizer's files alone."""
    again = scene.framework.checkpoint == "state"
    return again and (scene.fsdp or scene.zero_stage in (1, 2))


def _on_node(scene: Scene, size_bytes: Num, *, split: bool) -> Num:
    """What the first node's ranks write: all of it, or each its part."""
    return scene.ranks_per_node * ceil_div(size_bytes, scene.q.shards) if split else size_bytes
