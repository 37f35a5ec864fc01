"""What stays on the GPU (and in host RAM) between the peaks of a step.

:func:`resident` lists, for a moment of the step, every role's weights, gradients and
optimizer state where the plan keeps them, then workspaces, context and engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from planner.catalog import device_constants
from planner.formulas import allocator, sharding, state
from planner.formulas.formula import Formula
from planner.formulas.parameters import Weight
from planner.formulas.parameters import weights as weights_of
from planner.numeric import Num, minimum
from planner.phases import (
    collectives,
    engine,
    gathered,
    host,
    reward_engine,
    units,
    zero,
)
from planner.phases.phase import PhasePlan
from planner.phases.role import Role
from planner.phases.scene import Scene, once, shared
from planner.plan.fields import EIGHT_BIT
from planner.setup.workload import four_bit
from planner.term import Bundle, Instant, Joined, Standing, Term
from planner.values.model_setup import ModelSetup, Use
from planner.values.sharding import sharding_of
from planner.values.step_phases import Engine, Moment

Place = Literal["gpu", "host"]


@once
def resident(scene: Scene, standing: Standing) -> Bundle:
    """Terms alive throughout a moment."""
    found = tuple(bundle for make, of in groups(standing) for bundle in make(scene, *of))
    return Joined.of(found)


def groups(standing: Standing) -> Iterator[tuple[Callable[..., Iterator[Bundle]], tuple[Any, ...]]]:
    """The same as functions of a scene, and what they are given beside: each reads few choices."""
    moment = standing.moment
    yield _models, (moment, standing.gradients, standing.fresh)
    yield _processes, ()
    if standing.engine:
        yield _engines, (moment.engine,)


def _models(scene: Scene, moment: Moment, gradients: str, fresh: bool) -> Iterator[Bundle]:
    for model in scene.setup.models:
        use = model.use(moment)
        terms = _of_model(scene, model.role, use, gradients if model.trained else "none")
        yield tuple(term for term in terms if not _left_behind(term)) if fresh else terms


def _processes(scene: Scene) -> Iterator[Bundle]:
    yield _process(scene)
    yield host.processes(scene)


def _engines(scene: Scene, state: Engine) -> Iterator[Bundle]:
    yield _engine(scene, state)


def resolved(scene: Scene, phase: PhasePlan) -> PhasePlan:
    """The phase with everything that stands at its instants."""
    found = tuple(_resolved(scene, instant) for instant in phase.instants)
    return phase._replace(instants=found)


def _resolved(scene: Scene, instant: Instant) -> Instant:
    found = [resident(scene, one) if type(one) is Standing else one for one in instant.shared]
    # Instant's own __new__ would only put the same fields together by name.
    return tuple.__new__(Instant, (instant.name, instant.terms, tuple(found)))


@shared
def _of_model(scene: Scene, name: str, use: Use, gradients: str) -> Iterator[Term]:
    role, model = scene.roles[name], scene.setup[name]
    if model.waits == "engine":
        return
    if model.trained:
        yield from _trained(scene, role, model, use, gradients)
        if scene.zero_stage and use.loaded and scene.plan.offload in ("optimizer", "all"):
            stays = _trained(scene, role, model, use, "none")
            yield host.by_deepspeed(scene, role, (*stays, _gradients(scene, role, "all")))
    else:
        away = model.waits == "host, streamed" or (model.waits == "host" and not use.computes)
        weights = _weights(scene, role, "host" if away else "gpu")
        yield weights
        if weights.host and gathered.flat(scene):
            yield host.gradients_nobody_makes(weights)
    yield from collectives.left_gathered(scene, role, use)


MADE_BY_STEPS = (
    *sharding.LEFT,
    state.GRADIENTS.name,
    sharding.ZERO_BUCKETS.name,
    sharding.ZERO_LOW_GRADIENTS.name,
)
"""What is not there while a run loads, beside the optimizer's."""


def _left_behind(term: Term) -> bool:
    """Whether a step has made it, or DeepSpeed for its steps."""
    return term.category == "optimizer" or term.name in MADE_BY_STEPS


@shared
def _engine(scene: Scene, state: Engine) -> Iterator[Term]:
    yield from engine.held(scene, state)
    yield from reward_engine.asleep(scene)


def _trained(
    scene: Scene, role: Role, model: ModelSetup, use: Use, gradients: str
) -> Iterator[Term]:
    plan = scene.plan
    place = _place(plan.offload, "parameters", use.computes)
    if four_bit(scene.setup, model):
        yield from _four_bit(scene, role, place)
    else:
        yield _weights(scene, role, place)
    if role.adapters:
        yield _adapters(scene, role, place, state.ADAPTERS)
    if role.second_adapter:
        yield _adapters(scene, role, place, state.FROZEN_ADAPTERS)
    if sharding_of(plan).ddp:
        width = scene.q.gradient_bytes
        yield state.DDP_BUCKETS(role.name, trainable=role.trainable, value_bytes=width)
    if use.loaded:
        yield from _optimizer_state(scene, role, _place(plan.offload, "optimizer", use.updates))
        yield from _kept_by_zero(scene, role, gradients)
    if scene.zero_stage == 3 and plan.offload not in ("optimizer", "all"):
        # One buffer for good (stage3.py, _setup_for_real_optimizer; offload_states takes it, too).
        if use.loaded and (use.updates or plan.offload != "all-between-phases"):
            yield _gradients(scene, role, "all")
    elif use.updates and gradients != "none" and not scene.setup.steps_in_backward:
        yield _gradients(scene, role, gradients)
        yield from zero.kept_beyond(scene, role, gradients)


def _kept_by_zero(scene: Scene, role: Role, gradients: str) -> Iterator[Term]:
    """What DeepSpeed has made with the first gradients and not given back."""
    stage, q = scene.zero_stage, scene.q
    if scene.setup.zero_widens:
        yield sharding.ZERO_LOW_GRADIENTS(
            role.name, trainable=role.trainable, value_bytes=q.compute_bytes
        )
    elif stage == 3:
        yield zero.bucket(scene, role)
    elif stage == 1 and gradients in ("accumulated", "layers", "made"):
        yield zero.bucket(scene, role, minimum(q.micro_batches - 1, 1))


@once
def _weights(scene: Scene, role: Role, place: Place) -> Term:
    whole = scene.stays_whole(role)
    return _placed(
        scene,
        place,
        state.WEIGHTS,
        role,
        layout=role.layout,
        parameters=role.parameters if whole else scene.sharded(role),
        shards=1 if whole else scene.shards_of("weights"),
        value_bytes=role.weight_bytes,
    )


def _adapters(scene: Scene, role: Role, place: Place, formula: Formula) -> Term:
    return _placed(
        scene,
        place,
        formula,
        role,
        tensors=role.adapter_tensors,
        adapter_parameters=scene.sharded_trainable(role),
        shards=scene.shards_of("weights"),
        value_bytes=adapter_bytes(scene),
    )


def _four_bit(scene: Scene, role: Role, place: Place) -> Iterator[Term]:
    """Projections of the layers in 4 bits, and the rest as it is computed with."""
    listed = weights_of(role.arch, "token-score" if role.value_head else "lm")
    linears = [weight for weight in listed if weight.kind == "linear"]
    quantised = sum(weight.total_elements for weight in linears)
    others = [weight for weight in listed if weight.kind != "linear"]
    yield _placed(
        scene,
        place,
        state.FOUR_BIT_WEIGHTS,
        role,
        layout=tuple((weight.count, weight.elements / quantised) for weight in linears),
        quantised=quantised,
    )
    kept = role.parameters - quantised
    yield _placed(
        scene,
        place,
        state.WEIGHTS,
        role,
        layout=tuple((weight.count, weight.elements / kept) for weight in others),
        parameters=kept,
        shards=1,
        value_bytes=role.weight_bytes,
    )


def _place(offload: str, part: str, in_use: bool) -> Place:
    """Where a part of the training state is: ``all`` and the part alone are throughout."""
    if offload in ("all", part):
        return "host"
    between = offload in ("all-between-phases", f"{part}-between-phases")
    return "host" if between and not in_use else "gpu"


def adapter_bytes(scene: Scene) -> int:
    """Bytes of one adapter value: peft's fp32, or the engine's half precision under ZeRO."""
    return scene.q.compute_bytes if scene.zero_stage else scene.q.master_bytes


@shared
def _optimizer_state(scene: Scene, role: Role, place: Place) -> Iterator[Term]:
    shards, plan = scene.shards_of("optimizer"), scene.plan
    if scene.zero_stage and plan.dtype != "fp32":
        yield _placed(
            scene, place, state.ZERO_MASTER, role, trainable=role.trainable, shards=shards
        )
    if plan.optimizer == "paged-adamw-8bit":
        yield from _paged(scene, role)
    elif plan.optimizer != "sgd":
        tables = _tables(scene, role)
        wide = sum(weight.elements for weight in tables)
        formula, width = state.ADAM_MOMENTS, {"value_bytes": scene.q.master_bytes}
        if plan.optimizer == "adamw-8bit":
            formula, width = state.ADAM_8BIT_MOMENTS, {}
        yield _placed(
            scene,
            place,
            formula,
            role,
            # Two tensors for each trained weight.
            layout=tuple((2 * count, share / 2) for count, share in role.trained_layout),
            tensors=2 * role.adapter_tensors,
            trainable=scene.sharded_trainable(role) - wide,
            shards=shards,
            **width,
        )
        if wide:
            yield _placed(
                scene,
                place,
                state.TABLE_MOMENTS,
                role,
                layout=tuple((2, weight.elements / wide / 2) for weight in tables),
                tables=wide,
            )


def _tables(scene: Scene, role: Role) -> list[Weight]:
    """Embeddings whose moments are fp32 beside 8-bit ones; under FSDP2 torchao's are 8-bit, too."""
    asked = scene.framework.widens_moments_of_embeddings and scene.plan.optimizer in EIGHT_BIT
    if not asked or role.adapters or not sharding_of(scene.plan).replicated:
        return []
    listed = weights_of(role.arch, "token-score" if role.value_head else "lm")
    return [weight for weight in listed if weight.kind in ("embedding", "position")]


def _paged(scene: Scene, role: Role) -> Iterator[Term]:
    """Moments in unified memory, which make room as they are evicted; small ones cannot be."""
    wide = sum(weight.elements for weight in _tables(scene, role))
    trained = [each for each in role.splits if each.adapter == (role.adapters > 0)]
    large = [each for each in trained if each.rows * each.width >= state.PAGED_ELEMENTS]
    paged = sum(each.count * each.rows * each.width for each in large) - wide
    yield scene.offloaded(role.name, "8-bit Adam moments, paged", 2 * paged + 8 * wide)
    tensors, trainable = 2 * sum(each.count for each in trained), role.trainable - wide
    yield state.UNPAGED_MOMENTS(role.name, tensors=tensors, trainable=trainable, paged=paged)


@once
def _gradients(scene: Scene, role: Role, gradients: str) -> Term:
    if gradients == "accumulated" and scene.whole_gradient_bytes:
        return state.WHOLE_GRADIENTS(
            role.name,
            layout=role.trained_layout,
            tensors=role.adapter_tensors,
            trainable=role.trainable,
            value_bytes=scene.whole_gradient_bytes,
            micro_batches=scene.q.micro_batches,
        )
    place: Place = "host" if scene.plan.offload == "all" else "gpu"
    if scene.zero_stage == 2 and gradients == "layers":
        gradients = "accumulated"
    formula, more = {
        "all": (state.GRADIENTS, {}),
        "made": (state.GRADIENTS, {}),
        "accumulated": (state.ACCUMULATED_GRADIENTS, {"micro_batches": scene.q.micro_batches}),
        "layers": (
            state.LAYER_GRADIENTS,
            {"micro_batches": scene.q.micro_batches, "late": _late_gradients(scene, role)},
        ),
    }[gradients]
    return _placed(
        scene,
        place,
        formula,
        role,
        layout=role.trained_layout,
        tensors=role.adapter_tensors,
        trainable=scene.sharded_trainable(role),
        shards=_shards_of_gradients(scene, gradients),
        value_bytes=scene.q.gradient_bytes,
        **more,
    )


def _shards_of_gradients(scene: Scene, gradients: str) -> Num:
    """ZeRO-1 keeps its own part of half-precision gradients for the update, and drops the rest."""
    if gradients == "all" and scene.zero_stage == 1 and not scene.setup.zero_widens:
        return scene.q.shards
    return scene.shards_of("gradients")


def _late_gradients(scene: Scene, role: Role) -> int:
    """Trained elements whose gradient comes after the first layer's.

    FSDP reduces its whole root group at the end, unless the head is a unit of its own; otherwise
    only the embedding is late, and a tied one has its gradient from the head already.
    """
    if not role.root_trainable:
        return 0
    if scene.fsdp:
        own = role.head_parameters * units.head_apart(scene, role)
        return units.trained_at_end(scene, role) - own
    tied = role.arch.tied and not role.value_head
    positions = role.arch.learned_positions * role.arch.hidden
    return positions + (0 if tied else role.arch.vocab * role.arch.hidden)


def _placed(
    scene: Scene,
    place: Place,
    formula: Formula,
    role: Role,
    *,
    tensors: Num = 1,
    layout: tuple[tuple[int, float], ...] = (),
    **inputs: Num,
) -> Term:
    """The term on the GPU, or what all local processes keep of it in host RAM."""
    if place == "gpu":
        return formula(role.name, tensors=tensors, layout=layout, **inputs)
    label, rank_bytes = f"{formula.name}, offloaded", formula.value(**inputs)
    if host.pinned(scene, role, formula.category):
        # ZeRO keeps each kind of state in one flat buffer.
        apart = ((1, 1.0),) if scene.zero_stage else layout or ((tensors, 1 / tensors),)
        return host.offloaded(scene, role.name, label, rank_bytes, apart)
    return scene.offloaded(role.name, label, rank_bytes)


@shared
def _process(scene: Scene) -> Iterator[Term]:
    """Workspaces, context and communicators of our own process."""
    capability = scene.facts.gpu.compute_capability or ""
    yield allocator.CUBLAS(
        "process",
        tensors=2,
        handles=2,
        workspace_bytes=allocator.cublas_workspace_bytes(capability),
    )
    yield allocator.context("process", scene.facts.gpu)
    yield allocator.training_code("process", scene.facts.gpu, sharded=scene.fsdp)
    if not sharding_of(scene.plan).alone:
        size = device_constants.first_communicator(scene.facts.gpu)
        yield allocator.NCCL(
            "process", communicator_bytes=size.centre, between=(size.low, size.high)
        )
