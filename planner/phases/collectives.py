"""What sharded training gathers around one layer of a role, and around its head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from planner.footprint import Term
from planner.formulas import sharding
from planner.numeric import Num, minimum
from planner.phases import units
from planner.phases.role import Role
from planner.phases.scene import Moment, Scene, once, shared

Arriving = Literal["", "layer", "embedding", "head", "table"]
"""A unit that is on its way, or has been and left its buffer."""


def at_layer(
    scene: Scene, role: Role, *, backward_of: int | None = None, trains: bool = False
) -> tuple[Term, ...]:
    """Gathered weights while a layer of the role computes.

    ``backward_of`` is the place of the layer that goes backward: those below it are still whole
    where layers are not resharded after their forward, and below the first there is nothing
    left to gather. Without it the last layer goes forward, and ``trains`` says that it keeps what
    its backward needs.
    """
    whole = 0 if backward_of is None else backward_of + 1
    layers = (whole or role.arch.layers) if stays_whole(scene, role) else 1
    # A backward whose layers are still whole has nothing to gather.
    kept = whole and not scene.plan.reshard_after_forward
    left = not whole and _finds_gathered(scene, role, trains)
    arriving: Arriving = "" if kept else "layer"
    if whole == 1 and not kept:
        arriving = "embedding" if units.apart(scene, role) else ""
    around = _around(scene, role, layers, arriving, left, trains, headless=whole > 0)
    if whole == 1 and not kept and units.tables_apart(scene, role):
        # Below the first layer there is an embedding that is a unit of its own.
        return (*around, _table_buffer(scene, role))
    return around


def at_head(
    scene: Scene, role: Role, *, backward: bool = False, trains: bool = False
) -> tuple[Term, ...]:
    """Gathered weights while head and loss compute, or go backward."""
    stay = stays_whole(scene, role)
    left = not backward and _finds_gathered(scene, role, trains)
    divided = units.tables_apart(scene, role) == units.BOTH
    own = (gathered_table(scene, role),) if divided and not stay else ()
    # A backward whose layers are still whole has nothing to gather ahead.
    arriving: Arriving = "" if backward and stay else "layer"
    if units.apart(scene, role) and not backward:
        arriving = "head"
    if divided and not backward:
        arriving = "table"
    layers = stay * role.arch.layers
    return (*own, *_around(scene, role, layers, arriving, left, trains, head=True))


def above_layers(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Gathered weights when a head has gone backward, and the last layer is next."""
    if units.tables_apart(scene, role) < units.BOTH:
        return at_head(scene, role, backward=True)
    stay = stays_whole(scene, role)
    arriving: Arriving = "" if stay else "layer"
    return _around(scene, role, stay * role.arch.layers, arriving, headless=True)


def beside_loss(
    scene: Scene, role: Role, inside: bool, *, backward: bool = False, trains: bool = False
) -> tuple[Term, ...]:
    """Gathered weights while a loss computes, or goes backward.

    Where it takes the model's output, its forward has ended by then, and its root may be resharded;
    ``inside`` says that the instant is one of the head itself.
    """
    outside = scene.framework.loss_code(scene.plan.framework_version).outside_model and not inside
    if not (scene.fsdp and outside) or _wrapped_whole(scene, role):
        return at_head(scene, role, backward=backward, trains=trains)
    if _root_stays(scene, role):
        layers = stays_whole(scene, role) * role.arch.layers
        return _around(scene, role, layers, "", head=True)
    return (_pool(scene, role, live_bytes=0),)


BETWEEN = ("reference log-probs", "reward", "values", "critic update")
"""Moments between the policy's first forward of a step and its update."""


def left_gathered(scene: Scene, role: Role, moment: Moment) -> Iterator[Term]:
    """Weights that forwards without gradient at other moments have left gathered.

    Those of the policy until its backward, those of a model without one from the first step on;
    a critic's own update is what follows its forward.
    """
    model, plan = scene.setup[role.name], scene.plan
    if _one_stays(scene, role) and moment != "load" and moment not in model.used_in:
        yield _whole_copy(scene, role)
    left = moment in BETWEEN and not role.value_head if role.trained else moment != "load"
    if not _leaves_gathered(scene) or not left or moment in model.used_in or model.waits == "host":
        return
    if _root_stays(scene, role):
        # verl's EngineEvalModeCtx reshards the root's own where fsdp_size is above 1.
        tables = units.tables_apart(scene, role) * units.of_table(scene, role)
        own = (units.of_root(scene, role) - tables) * (plan.shard_size <= 1)
        yield sharding.GATHERED_ROOT(
            role.name,
            root_parameters=own + tables,
            value_bytes=scene.q.compute_bytes,
            tensors=3,
        )
    if stays_whole(scene, role):
        yield _gathered(scene, role, role.arch.layers)


def _leaves_gathered(scene: Scene) -> bool:
    return scene.fsdp and scene.framework.leaves_gathered


def _finds_gathered(scene: Scene, role: Role, trains: bool = False) -> bool:
    """Whether a forward finds layers gathered that an earlier one without gradient has left.

    A frozen model's are those of the step before, a reference's of the policy's weights those of
    its old log-probs.
    """
    kept = _leaves_gathered(scene) and scene.setup[role.name].waits != "host"
    whole = kept and stays_whole(scene, role)
    return whole and (trains or not role.trained or role.disabled)


@shared
def _around(
    scene: Scene,
    role: Role,
    layers: int,
    arriving: Arriving,
    left: bool = False,
    trains: bool = False,
    *,
    head: bool = False,
    headless: bool = False,
) -> Iterator[Term]:
    """Weights beside ``layers`` whole ones, and the buffer that others are ``arriving`` in.

    What an earlier forward has ``left`` whole does not arrive. ``head`` says that the head
    computes, or its loss; one of its own that has gone backward (``headless``) is whole no more.
    """
    if _wrapped_whole(scene, role):
        yield _whole_copy(scene, role)
        if not _one_stays(scene, role):
            yield sharding.WHOLE_GATHER_BUFFER(
                role.name, parameters=role.parameters, value_bytes=_travelling(scene)
            )
    elif scene.fsdp:
        yield from _outside(scene, role, head, headless)
        if layers:
            yield _gathered(scene, role, layers)
        buffers = tuple(BUFFERS[one](scene, role) for one in (arriving,) if one)
        if left and arriving:
            buffers = (_left_buffer(scene, role, trains, arriving == "table"),)
        yield from buffers
        yield _pool(scene, role, live_bytes=sum(buffer.bytes for buffer in buffers))
    else:
        yield from _zero3(scene, role)


def _outside(scene: Scene, role: Role, head: bool, headless: bool = False) -> Iterator[Term]:
    """Gathered weights outside the layers."""
    if head or not units.apart(scene, role):
        yield root(scene, role, headless)
    if units.apart(scene, role) and stays_whole(scene, role):
        yield gathered_table(scene, role)


def _pool(scene: Scene, role: Role, live_bytes: Num) -> Term:
    """What the all-gather stream has cached beside its live buffer."""
    apart = units.tables_apart(scene, role)
    return sharding.GATHER_POOL(
        role.name,
        root_parameters=units.of_table(scene, role) if apart else units.of_root(scene, role),
        layer_parameters=units.of_layer(scene, role),
        value_bytes=_travelling(scene),
        live_bytes=live_bytes,
    )


def arrivals(scene: Scene, role: Role) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """A layer's weights arrive in a forward, by name of the instant; FSDP only.

    A group's flat buffer is freed when the next group has been copied out of its own: the
    root's beside the first layer's, a layer's beside the next one's.
    """
    if not scene.fsdp or _wrapped_whole(scene, role) or _finds_gathered(scene, role):
        return
    own, layers = _gather_buffer(scene, role), role.arch.layers
    stay, first = stays_whole(scene, role), _gathered(scene, role, 1)
    whole = _gathered(scene, role, layers) if stay else first
    stays = tuple(_outside(scene, role, head=False))
    if units.apart(scene, role):
        yield "embedding's weights arrive", (*stays, *before_layers(scene, role))
        yield FIRST_ARRIVES, (*stays, _table_buffer(scene, role), first, own)
        yield HEAD_ARRIVES, (*(*stays, whole) * stay, *_root(scene, role), own)
    elif units.tables_apart(scene, role):
        table, buffer = gathered_table(scene, role), _table_buffer(scene, role)
        tables = () if stay else (table,)
        yield "first weights, the embedding's, arrive", (*stays, *tables, buffer)
        yield FIRST_ARRIVES, (*stays, first, own, buffer)
        if units.tables_apart(scene, role) == units.BOTH:
            beside = (whole,) if stay else tables
            yield HEAD_ARRIVES, (*stays, *beside, own, buffer)
    else:
        yield FIRST_ARRIVES, (*_root(scene, role), first, own)
    if layers > 1:
        yield "a layer's weights arrive", (*stays, whole, own, own)


FIRST_ARRIVES = "first layer's weights arrive"
"""FSDP's first instant of a forward's layers."""
HEAD_ARRIVES = "head's weights arrive"
"""FSDP's last instant of a forward's layers, where the head is a unit of its own."""


def before_layers(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What a forward has gathered until its first layer, beside the buffer it came in."""
    if scene.fsdp and units.apart(scene, role):
        return gathered_table(scene, role), _table_buffer(scene, role)
    return _root(scene, role) if scene.fsdp else _zero3(scene, role)


def again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The root's weights as a backward begins, beside the buffer they arrive in; FSDP only."""
    if units.head_stays(scene):
        return ()
    whole = _root_stays(scene, role) or _wrapped_whole(scene, role)
    if whole or not scene.fsdp:
        return ()
    if units.tables_apart(scene, role) == units.BOTH:
        return root(scene, role), gathered_table(scene, role), _table_buffer(scene, role)
    return _root(scene, role)


def kept_for_backward(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Weights outside the layers that stay gathered between forward and backward."""
    return tuple(_outside(scene, role, head=True)) if units.head_stays(scene) else ()


def left_by_another(scene: Scene, role: Role, passes: Num = 2) -> tuple[Term, ...]:
    """The head's unit, as the first of some forwards without gradient leaves it to the next.

    Not one that the loss itself has gathered, as it does with adapters.
    """
    if not units.head_stays(scene) or not role.trained or role.adapters:
        return ()
    again = minimum(passes - 1, 1)
    return (
        sharding.GATHERED_ROOT(
            role.name,
            label="gathered head weights, left by another forward",
            root_parameters=units.of_root(scene, role) * again,
            value_bytes=scene.q.compute_bytes,
        ),
    )


def left_for_reference(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What the policy's old log-probs leave gathered beside a reference, in accelerate's units."""
    left = left_by_another(scene, role)
    if units.head_stays(scene) and stays_whole(scene, role):
        tables = (gathered_table(scene, role),) if units.apart(scene, role) else ()
        left = (*left, *tables, _gathered(scene, role, role.arch.layers))
    return left


@once
def _root(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The root's weights beside the buffer they arrived in."""
    return root(scene, role), _root_buffer(scene, role)


@once
def _root_buffer(scene: Scene, role: Role) -> Term:
    return sharding.ROOT_GATHER_BUFFER(
        role.name, root_parameters=units.of_root(scene, role), value_bytes=_travelling(scene)
    )


def stays_whole(scene: Scene, role: Role) -> bool:
    """Whether layers stay gathered after their forward; a frozen model's do where ours is not."""
    stay = role.trained or _leaves_gathered(scene)
    return stay and not scene.plan.reshard_after_forward


def _root_stays(scene: Scene, role: Role) -> bool:
    """Whether the root does, too: FSDP1 never reshards it after a forward.

    torch 2.13 ``_runtime_utils.py``, ``_post_forward_reshard``: ``not state._is_root``. The plain
    step wraps by FSDP2 whatever the plan says.
    """
    flat = scene.plan.sharding == "fsdp1" and _leaves_gathered(scene)
    return flat or stays_whole(scene, role)


def _wrapped_whole(scene: Scene, role: Role) -> bool:
    """Whether a forward gathers the whole reference, which is one unit to FSDP."""
    return scene.fsdp and role.name == "reference" and scene.framework.reference_gathered_whole


def _one_stays(scene: Scene, role: Role) -> bool:
    """Whether that one is whole from its first forward on: no backward ever reshards it."""
    return _wrapped_whole(scene, role) and not scene.plan.reshard_after_forward


@once
def _whole_copy(scene: Scene, role: Role) -> Term:
    return sharding.WHOLE_COPY(
        role.name,
        layout=role.layout,
        parameters=role.parameters,
        value_bytes=scene.q.compute_bytes,
    )


@once
def root(scene: Scene, role: Role, headless: bool = False) -> Term:
    """The root group's gathered weights; with tables of their own where they stay whole."""
    apart = units.tables_apart(scene, role)
    if stays_whole(scene, role):
        apart = int(headless and apart == units.BOTH)
    return sharding.GATHERED_ROOT(
        role.name,
        root_parameters=units.of_root(scene, role) - apart * units.of_table(scene, role),
        value_bytes=scene.q.compute_bytes,
        tensors=3,
    )


@once
def gathered_table(scene: Scene, role: Role) -> Term:
    """An embedding or a head that is a unit of its own, while it is whole."""
    return sharding.GATHERED_TABLE(
        role.name, table_parameters=units.of_table(scene, role), value_bytes=scene.q.compute_bytes
    )


@once
def _table_buffer(scene: Scene, role: Role) -> Term:
    return sharding.TABLE_GATHER_BUFFER(
        role.name, table_parameters=units.of_table(scene, role), value_bytes=_travelling(scene)
    )


@once
def _gathered(scene: Scene, role: Role, count: int) -> Term:
    return sharding.GATHERED_LAYERS(
        role.name,
        gathered_layers=count,
        layer_parameters=units.of_layer(scene, role),
        value_bytes=scene.q.compute_bytes,
        tensors=count * 9,
    )


def _left_buffer(scene: Scene, role: Role, trains: bool, table: bool) -> Term:
    """What the last group that was gathered has arrived in."""
    q = scene.q
    trained = scene.sharded_trainable(role) // scene.shards_of("gradients")
    tables = units.tables_apart(scene, role) * units.of_table(scene, role)
    return sharding.LEFT_GATHER_BUFFER(
        role.name,
        layer_parameters=units.of_table(scene, role) if table else units.of_layer(scene, role),
        root_parameters=units.of_root(scene, role) - tables,
        value_bytes=_travelling(scene),
        again=trains * minimum(q.micro_batches * q.updates_per_step - 1, 1),
        fsdp_size=scene.plan.shard_size,
        earlier_gradients_bytes=trains * minimum(q.micro_batches - 1, 1) * trained
        * q.gradient_bytes,
    )


@once
def _gather_buffer(scene: Scene, role: Role) -> Term:
    return sharding.GATHER_BUFFER(
        role.name,
        layer_parameters=units.of_layer(scene, role),
        value_bytes=_travelling(scene),
    )


BUFFERS = {
    "layer": _gather_buffer,
    "embedding": _table_buffer,
    "head": _root_buffer,
    "table": _table_buffer,
}
"""What a unit's weights arrive in."""


def _travelling(scene: Scene) -> Num:
    """Bytes of a weight on its way: none where there is one shard, which is cast and not gathered.

    torch 2.13 ``_fsdp_param_group.py``, ``unshard``: ``if world_size == 1``.
    """
    return scene.q.compute_bytes * (scene.q.shards > 1)


def _zero3(scene: Scene, role: Role) -> tuple[Term, ...]:
    if scene.zero_stage != 3:
        return ()
    return (
        sharding.ZERO3_LIVE(
            role.name,
            parameters=role.parameters,
            value_bytes=scene.q.compute_bytes,
            layout=role.layout,
        ),
    )
