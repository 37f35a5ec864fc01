"""What sharded training gathers and reduces around one layer of a role."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Term
from planner.formulas import sharding
from planner.numeric import Num
from planner.phases.role import Role
from planner.phases.scene import Scene


def at_layer(scene: Scene, role: Role, *, backward_of: int | None = None) -> tuple[Term, ...]:
    """Gathered weights while a layer of the role computes.

    ``backward_of`` is the place of the layer that goes backward: those below it are still whole
    where layers are not resharded after their forward, and below the first there is nothing
    left to gather. Without it the last layer goes forward.
    """
    if _wrapped_whole(scene, role):
        return _whole(scene, role)
    if scene.fsdp:
        whole = 0 if backward_of is None else backward_of + 1
        layers = _layers(scene, role, whole)
        # A backward whose layers are still whole has nothing to gather.
        kept = whole and not scene.plan.reshard_after_forward
        buffer = () if kept or whole == 1 else (_gather_buffer(scene, role),)
        return (*root(scene, role), *layers, *buffer, _pool(scene, role, buffer))
    return _zero3(scene, role)


def at_head(scene: Scene, role: Role, *, backward: bool = False) -> tuple[Term, ...]:
    """Gathered weights while head and loss compute, or go backward."""
    if _wrapped_whole(scene, role):
        return _whole(scene, role)
    if scene.fsdp:
        layers = _layers(scene, role, 0) if _stays_whole(scene, role) else ()
        # A backward whose layers are still whole has nothing to gather ahead.
        buffer = () if backward and layers else (_gather_buffer(scene, role),)
        return (*root(scene, role), *layers, *buffer, _pool(scene, role, buffer))
    return _zero3(scene, role)


def arrivals(scene: Scene, role: Role) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """A layer's weights arrive in a forward, by name of the instant; FSDP only.

    A group's flat buffer is freed when the next group has been copied out of its own: the
    root's beside the first layer's, a layer's beside the next one's.
    """
    if not scene.fsdp or _wrapped_whole(scene, role):
        return
    own = _gather_buffer(scene, role)
    first = (*root(scene, role), _gathered(scene, role, 1), own)
    yield "first layer's weights arrive", (*first, _root_buffer(scene, role))
    if role.arch.layers > 1:
        yield "a layer's weights arrive", (*root(scene, role), *_layers(scene, role, 0), own, own)


def before_layers(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What a forward has gathered until its first layer: the root, beside the buffer it came in."""
    if scene.fsdp:
        return (*root(scene, role), _root_buffer(scene, role))
    return _zero3(scene, role)


def again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The root's weights as a backward begins, beside the buffer they arrive in; FSDP only."""
    if not scene.fsdp or not scene.plan.reshard_after_forward or _wrapped_whole(scene, role):
        return ()
    return (*root(scene, role), _root_buffer(scene, role))


def _stays_whole(scene: Scene, role: Role) -> bool:
    """Whether layers stay gathered after their forward; those of a frozen model never do."""
    return role.trained and not scene.plan.reshard_after_forward


def _wrapped_whole(scene: Scene, role: Role) -> bool:
    """Whether a forward gathers the whole reference, which is one unit to FSDP."""
    return scene.fsdp and role.name == "reference" and scene.framework.reference_gathered_whole


def _whole(scene: Scene, role: Role) -> tuple[Term, ...]:
    return (
        sharding.WHOLE_COPY(
            role.name,
            layout=role.layout,
            parameters=role.parameters,
            value_bytes=scene.q.compute_bytes,
        ),
    )


def root(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The root group's gathered weights."""
    return (
        sharding.GATHERED_ROOT(
            role.name,
            root_parameters=_flat_root(scene, role),
            value_bytes=scene.q.compute_bytes,
            tensors=3,
        ),
    )


def reductions_at_layer(
    scene: Scene, role: Role, *, first: bool = False, whole: bool = True
) -> tuple[Term, ...]:
    """Unsharded gradients and reduce buffers while a layer's backward runs.

    The ``first`` layer to go backward finds no earlier layer's gradients being reduced.
    ``whole`` counts the gradients of the whole layer, where they are not counted one by one.
    """
    q = scene.q
    if scene.fsdp:
        own = sharding.UNSHARDED_GRADIENTS(
            role.name, layer_parameters_trained=role.layer_trainable, value_bytes=q.compute_bytes
        )
        flat = role.layer_trainable if role.adapters else _flat(scene, role)
        earlier = sharding.REDUCE_INPUT(
            role.name, layer_parameters_trained=flat, value_bytes=q.reduce_bytes
        )
        return (*(own,) * whole, *(earlier,) * (not first))
    if scene.zero_stage >= 2:
        return (_zero_buckets(scene, role),)
    return ()


def reductions_at_end(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Unsharded root gradients and their reduction when the backward ends."""
    q = scene.q
    if scene.fsdp and role.root_trainable:
        return (
            sharding.ROOT_GRADIENTS(
                role.name,
                root_parameters_trained=role.root_trainable,
                value_bytes=q.compute_bytes,
                tensors=3,
            ),
            root_reduction(scene, role),
        )
    if scene.zero_stage >= 2:
        return (_zero_buckets(scene, role),)
    return ()


def root_reduction(scene: Scene, role: Role) -> Term:
    """Input of the reduction of the root's gradients."""
    return sharding.ROOT_REDUCE_INPUT(
        role.name,
        root_parameters_trained=role.root_trainable,
        value_bytes=scene.q.reduce_bytes,
    )


def held_for_all_reduce(scene: Scene, role: Role, layers: int) -> tuple[Term, ...]:
    """What hybrid sharding keeps of the reductions of ``layers`` layers until the backward ends."""
    q = scene.q
    if scene.plan.sharding != "fsdp2":
        return ()
    return (
        sharding.ALL_REDUCED(
            role.name,
            tensors=layers,
            trained_elements=role.layer_trainable * layers,
            shards=scene.shards_of("gradients"),
            value_bytes=q.reduce_bytes,
            narrower=int(q.gradient_bytes < q.reduce_bytes),
            micro_batches=q.micro_batches,
            replicas=q.data_parallel // q.shards,
        ),
    )


def _zero_buckets(scene: Scene, role: Role) -> Term:
    return sharding.ZERO_BUCKETS(
        role.name, trainable=role.trainable, value_bytes=scene.q.gradient_bytes, tensors=2
    )


def _layers(scene: Scene, role: Role, whole_layers: int) -> tuple[Term, ...]:
    count = (whole_layers or role.arch.layers) if _stays_whole(scene, role) else 1
    return (_gathered(scene, role, count),)


def _gathered(scene: Scene, role: Role, count: int) -> Term:
    return sharding.GATHERED_LAYERS(
        role.name,
        gathered_layers=count,
        layer_parameters=_flat(scene, role),
        value_bytes=scene.q.compute_bytes,
        tensors=count * 9,
    )


def _pool(scene: Scene, role: Role, buffer: tuple[Term, ...]) -> Term:
    """What the all-gather stream has cached beside its live buffer."""
    return sharding.GATHER_POOL(
        role.name,
        root_parameters=_flat_root(scene, role),
        layer_parameters=_flat(scene, role),
        value_bytes=scene.q.compute_bytes,
        live_bytes=sum(term.bytes for term in buffer),
    )


def _flat(scene: Scene, role: Role) -> Num:
    """Elements of one layer as they travel, padding included."""
    padding = role.layer_padding(scene.q.shards) if scene.pads else 0
    return role.layer_parameters + role.layer_adapters + padding


def _flat_root(scene: Scene, role: Role) -> Num:
    """The same of what is outside the layers."""
    return role.root_parameters + (role.root_padding(scene.q.shards) if scene.pads else 0)


def _root_buffer(scene: Scene, role: Role) -> Term:
    return sharding.ROOT_GATHER_BUFFER(
        role.name, root_parameters=_flat_root(scene, role), value_bytes=scene.q.compute_bytes
    )


def _gather_buffer(scene: Scene, role: Role) -> Term:
    return sharding.GATHER_BUFFER(
        role.name,
        layer_parameters=_flat(scene, role),
        value_bytes=scene.q.compute_bytes,
    )


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
