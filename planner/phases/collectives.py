"""What sharded training gathers and reduces around one layer of a role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from planner.footprint import Term
from planner.formulas import sharding
from planner.numeric import Num, minimum
from planner.phases import units
from planner.phases.role import Role
from planner.phases.scene import Scene, once, shared

Arriving = Literal["", "layer", "embedding", "head"]
"""A unit that is on its way, or has been and left its buffer."""


def at_layer(scene: Scene, role: Role, *, backward_of: int | None = None) -> tuple[Term, ...]:
    """Gathered weights while a layer of the role computes.

    ``backward_of`` is the place of the layer that goes backward: those below it are still whole
    where layers are not resharded after their forward, and below the first there is nothing
    left to gather. Without it the last layer goes forward.
    """
    whole = 0 if backward_of is None else backward_of + 1
    layers = (whole or role.arch.layers) if _stays_whole(scene, role) else 1
    # A backward whose layers are still whole has nothing to gather.
    kept = whole and not scene.plan.reshard_after_forward
    arriving: Arriving = "" if kept else "layer"
    if whole == 1 and not kept:
        arriving = "embedding" if units.apart(scene, role) else ""
    return _around(scene, role, layers, arriving, head=False)


def at_head(scene: Scene, role: Role, *, backward: bool = False) -> tuple[Term, ...]:
    """Gathered weights while head and loss compute, or go backward."""
    stay = _stays_whole(scene, role)
    # A backward whose layers are still whole has nothing to gather ahead.
    arriving: Arriving = "" if backward and stay else "layer"
    if units.apart(scene, role) and not backward:
        arriving = "head"
    return _around(scene, role, stay * role.arch.layers, arriving, head=True)


def beside_loss(
    scene: Scene, role: Role, inside: bool, *, backward: bool = False
) -> tuple[Term, ...]:
    """Gathered weights while a loss computes, or goes backward.

    Where it takes the model's output, its root is resharded by then; ``inside`` says that the
    instant is one of the head itself.
    """
    resharded = scene.plan.reshard_after_forward or not role.trained
    outside = scene.framework.loss_code(scene.plan.framework_version).outside_model and not inside
    if not (scene.fsdp and outside and resharded) or _wrapped_whole(scene, role):
        return at_head(scene, role, backward=backward)
    return (_pool(scene, role, live_bytes=0),)


@shared
def _around(
    scene: Scene, role: Role, layers: int, arriving: Arriving, *, head: bool
) -> Iterator[Term]:
    """Weights beside ``layers`` whole ones, and the buffer that others are ``arriving`` in.

    ``head`` says that the head computes, or its loss.
    """
    if _wrapped_whole(scene, role):
        width, parameters = scene.q.compute_bytes, role.parameters
        yield sharding.WHOLE_COPY(
            role.name, layout=role.layout, parameters=parameters, value_bytes=width
        )
        yield sharding.WHOLE_GATHER_BUFFER(
            role.name, parameters=parameters, value_bytes=_travelling(scene)
        )
    elif scene.fsdp:
        yield from _outside(scene, role, head)
        if layers:
            yield _gathered(scene, role, layers)
        buffers = tuple(BUFFERS[one](scene, role) for one in (arriving,) if one)
        yield from buffers
        yield _pool(scene, role, live_bytes=sum(buffer.bytes for buffer in buffers))
    else:
        yield from _zero3(scene, role)


def _outside(scene: Scene, role: Role, head: bool) -> Iterator[Term]:
    """Gathered weights outside the layers."""
    if head or not units.apart(scene, role):
        yield root(scene, role)
    if units.apart(scene, role) and _stays_whole(scene, role):
        yield embedding(scene, role)


def _pool(scene: Scene, role: Role, live_bytes: Num) -> Term:
    """What the all-gather stream has cached beside its live buffer."""
    return sharding.GATHER_POOL(
        role.name,
        root_parameters=_flat_root(scene, role),
        layer_parameters=_flat(scene, role),
        value_bytes=_travelling(scene),
        live_bytes=live_bytes,
    )


def arrivals(scene: Scene, role: Role) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """A layer's weights arrive in a forward, by name of the instant; FSDP only.

    A group's flat buffer is freed when the next group has been copied out of its own: the
    root's beside the first layer's, a layer's beside the next one's.
    """
    if not scene.fsdp or _wrapped_whole(scene, role):
        return
    own, divided = _gather_buffer(scene, role), units.apart(scene, role)
    stays = tuple(_outside(scene, role, head=False))
    if divided:
        yield "embedding's weights arrive", (*stays, *before_layers(scene, role))
    near = (*stays, _embedding_buffer(scene, role)) if divided else _root(scene, role)
    yield FIRST_ARRIVES, (*near, _gathered(scene, role, 1), own)
    layers = role.arch.layers
    whole = _gathered(scene, role, layers if _stays_whole(scene, role) else 1)
    if layers > 1:
        yield "a layer's weights arrive", (*stays, whole, own, own)
    if divided:
        layers_whole = (*stays, whole) if _stays_whole(scene, role) else ()
        yield HEAD_ARRIVES, (*layers_whole, *_root(scene, role), own)


FIRST_ARRIVES = "first layer's weights arrive"
"""FSDP's first instant of a forward's layers."""
HEAD_ARRIVES = "head's weights arrive"
"""FSDP's last instant of a forward's layers, where the head is a unit of its own."""


def before_layers(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What a forward has gathered until its first layer, beside the buffer it came in."""
    if scene.fsdp and units.apart(scene, role):
        return embedding(scene, role), _embedding_buffer(scene, role)
    return _root(scene, role) if scene.fsdp else _zero3(scene, role)


def again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The root's weights as a backward begins, beside the buffer they arrive in; FSDP only."""
    if units.head_stays(scene):
        return ()
    whole = not scene.plan.reshard_after_forward or _wrapped_whole(scene, role)
    return () if whole or not scene.fsdp else _root(scene, role)


def kept_for_backward(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Weights outside the layers that stay gathered between forward and backward."""
    return tuple(_outside(scene, role, head=True)) if units.head_stays(scene) else ()


def left_gathered(scene: Scene, role: Role, passes: Num = 2) -> tuple[Term, ...]:
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
            root_parameters=_flat_root(scene, role) * again,
            value_bytes=scene.q.compute_bytes,
        ),
    )


def _root(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The root's weights beside the buffer they arrived in."""
    return root(scene, role), _root_buffer(scene, role)


@once
def _root_buffer(scene: Scene, role: Role) -> Term:
    return sharding.ROOT_GATHER_BUFFER(
        role.name, root_parameters=_flat_root(scene, role), value_bytes=_travelling(scene)
    )


@once
def _embedding_buffer(scene: Scene, role: Role) -> Term:
    elements = units.of_embedding(scene, role)
    return sharding.EMBEDDING_GATHER_BUFFER(
        role.name, embedding_parameters=elements, value_bytes=_travelling(scene)
    )


@once
def embedding(scene: Scene, role: Role) -> Term:
    """The embedding, where it is a unit of its own and whole."""
    elements = units.of_embedding(scene, role)
    return sharding.GATHERED_EMBEDDING(
        role.name, embedding_parameters=elements, value_bytes=scene.q.compute_bytes
    )


def _stays_whole(scene: Scene, role: Role) -> bool:
    """Whether layers stay gathered after their forward; those of a frozen model never do."""
    return role.trained and not scene.plan.reshard_after_forward


def _wrapped_whole(scene: Scene, role: Role) -> bool:
    """Whether a forward gathers the whole reference, which is one unit to FSDP."""
    return scene.fsdp and role.name == "reference" and scene.framework.reference_gathered_whole


@once
def root(scene: Scene, role: Role) -> Term:
    """The root group's gathered weights."""
    return sharding.GATHERED_ROOT(
        role.name,
        root_parameters=_flat_root(scene, role),
        value_bytes=scene.q.compute_bytes,
        tensors=3,
    )


def reductions_at_layer(
    scene: Scene, role: Role, *, first: bool = False, whole: bool = True
) -> Iterator[Term]:
    """Unsharded gradients and reduce buffers while a layer's backward runs.

    The ``first`` layer to go backward finds no earlier layer's gradients being reduced.
    ``whole`` counts the gradients of the whole layer, where they are not counted one by one.
    """
    q, trained = scene.q, role.layer_trainable
    if scene.fsdp and whole:
        yield sharding.UNSHARDED_GRADIENTS(
            role.name, layer_parameters_trained=trained, value_bytes=q.compute_bytes
        )
    of_head = units.trained_of_head(scene, role)
    if scene.fsdp and (of_head or not first):
        above = _flat_root(scene, role) if first else _flat(scene, role)
        flat = trained if role.adapters else above
        yield sharding.REDUCE_INPUT(
            role.name, layer_parameters_trained=flat, value_bytes=q.reduce_bytes
        )
    yield from _zero_buckets(scene, role)


def reductions_at_end(scene: Scene, role: Role) -> Iterator[Term]:
    """Unsharded root gradients and their reduction when the backward ends."""
    if scene.fsdp and role.root_trainable:
        late = units.trained_at_end(scene, role)
        yield root_gradients(scene, role, late, tensors=1 if units.apart(scene, role) else 3)
        yield root_reduction(scene, role)
    yield from _zero_buckets(scene, role)


def root_gradients(scene: Scene, role: Role, elements: int, **more: Any) -> Term:
    """Gradients of ``elements`` of the root, not sharded yet."""
    width = scene.q.compute_bytes
    return sharding.ROOT_GRADIENTS(
        role.name, root_parameters_trained=elements, value_bytes=width, **more
    )


def root_reduction(scene: Scene, role: Role) -> Term:
    """Input of the reduction of the root's gradients."""
    return sharding.ROOT_REDUCE_INPUT(
        role.name,
        root_parameters_trained=units.trained_at_end(scene, role),
        value_bytes=scene.q.reduce_bytes,
    )


def reduced_at_end(scene: Scene, role: Role) -> Term:
    """Output of that reduction."""
    late = units.trained_at_end(scene, role)
    return sharding.REDUCE_OUTPUT(
        role.name,
        root_parameters_trained=late,
        shards=scene.shards_of("gradients"),
        value_bytes=scene.q.reduce_bytes,
        cast=int(scene.q.gradient_bytes != scene.q.reduce_bytes),
    )


def held_for_all_reduce(scene: Scene, role: Role, layers: int) -> Iterator[Term]:
    """What hybrid sharding keeps of the reductions of ``layers`` layers until the backward ends."""
    q = scene.q
    if scene.pads:
        yield sharding.ALL_REDUCED(
            role.name,
            tensors=layers,
            trained_elements=role.layer_trainable * layers,
            shards=scene.shards_of("gradients"),
            value_bytes=q.reduce_bytes,
            cast=int(q.gradient_bytes != q.reduce_bytes),
            micro_batches=q.micro_batches,
            replicas=q.data_parallel // q.shards,
        )


def _zero_buckets(scene: Scene, role: Role) -> Iterator[Term]:
    if scene.zero_stage >= 2:
        yield sharding.ZERO_BUCKETS(
            role.name, trainable=role.trainable, value_bytes=scene.q.gradient_bytes, tensors=2
        )


@once
def _gathered(scene: Scene, role: Role, count: int) -> Term:
    return sharding.GATHERED_LAYERS(
        role.name,
        gathered_layers=count,
        layer_parameters=_flat(scene, role),
        value_bytes=scene.q.compute_bytes,
        tensors=count * 9,
    )


def _flat(scene: Scene, role: Role) -> Num:
    """Elements of one layer as they travel, padding included."""
    adapters = role.layer_adapters * (1 + role.second_adapter)
    return role.layer_parameters + adapters + scene.padding(role, "layer")


def _flat_root(scene: Scene, role: Role) -> Num:
    """The same of what is outside the layers, or of the head's unit alone."""
    whole = role.root_parameters + scene.padding(role, "root")
    return whole - units.of_embedding(scene, role) * units.apart(scene, role)


@once
def _gather_buffer(scene: Scene, role: Role) -> Term:
    return sharding.GATHER_BUFFER(
        role.name,
        layer_parameters=_flat(scene, role),
        value_bytes=_travelling(scene),
    )


BUFFERS = {"layer": _gather_buffer, "embedding": _embedding_buffer, "head": _root_buffer}
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
