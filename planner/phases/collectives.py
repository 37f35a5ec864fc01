"""What sharded training gathers and reduces around one layer of a role."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Term
from planner.formulas import sharding
from planner.numeric import Num
from planner.phases.role import Role
from planner.phases.scene import Scene, once, shared


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
    return _around(scene, role, layers, not kept and whole != 1)


def at_head(scene: Scene, role: Role, *, backward: bool = False) -> tuple[Term, ...]:
    """Gathered weights while head and loss compute, or go backward."""
    stay = _stays_whole(scene, role)
    # A backward whose layers are still whole has nothing to gather ahead.
    return _around(scene, role, stay * role.arch.layers, not (backward and stay))


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
def _around(scene: Scene, role: Role, layers: int, gathers: bool) -> Iterator[Term]:
    """Weights beside ``layers`` whole ones, perhaps while the next one's arrive."""
    width = scene.q.compute_bytes
    if _wrapped_whole(scene, role):
        parameters = role.parameters
        yield sharding.WHOLE_COPY(
            role.name, layout=role.layout, parameters=parameters, value_bytes=width
        )
    elif scene.fsdp:
        yield root(scene, role)
        if layers:
            yield _gathered(scene, role, layers)
        buffer = _gather_buffer(scene, role)
        if gathers:
            yield buffer
        yield _pool(scene, role, live_bytes=gathers * buffer.bytes)
    else:
        yield from _zero3(scene, role)


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
    own = _gather_buffer(scene, role)
    yield "first layer's weights arrive", (*_root(scene, role), _gathered(scene, role, 1), own)
    layers = role.arch.layers
    if layers > 1:
        whole = _gathered(scene, role, layers if _stays_whole(scene, role) else 1)
        yield "a layer's weights arrive", (root(scene, role), whole, own, own)


def before_layers(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What a forward has gathered until its first layer: the root, beside the buffer it came in."""
    return _root(scene, role) if scene.fsdp else _zero3(scene, role)


def again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The root's weights as a backward begins, beside the buffer they arrive in; FSDP only."""
    whole = not scene.plan.reshard_after_forward or _wrapped_whole(scene, role)
    return () if whole or not scene.fsdp else _root(scene, role)


@once
def _root(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The root's weights beside the buffer they arrived in."""
    buffer = sharding.ROOT_GATHER_BUFFER(
        role.name, root_parameters=_flat_root(scene, role), value_bytes=_travelling(scene)
    )
    return root(scene, role), buffer


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


@shared
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
    if scene.fsdp and not first:
        flat = trained if role.adapters else _flat(scene, role)
        yield sharding.REDUCE_INPUT(
            role.name, layer_parameters_trained=flat, value_bytes=q.reduce_bytes
        )
    yield from _zero_buckets(scene, role)


def reductions_at_end(scene: Scene, role: Role) -> Iterator[Term]:
    """Unsharded root gradients and their reduction when the backward ends."""
    if scene.fsdp and role.root_trainable:
        yield root_gradients(scene, role, role.root_trainable, tensors=3)
        yield root_reduction(scene, role)
    yield from _zero_buckets(scene, role)


@once
def root_gradients(
    scene: Scene, role: Role, elements: int, *, tensors: int = 1, label: str = ""
) -> Term:
    """Gradients of ``elements`` of the root, not sharded yet."""
    return sharding.ROOT_GRADIENTS(
        role.name,
        label=label,
        tensors=tensors,
        root_parameters_trained=elements,
        value_bytes=scene.q.compute_bytes,
    )


def root_reduction(scene: Scene, role: Role) -> Term:
    """Input of the reduction of the root's gradients."""
    return sharding.ROOT_REDUCE_INPUT(
        role.name,
        root_parameters_trained=role.root_trainable,
        value_bytes=scene.q.reduce_bytes,
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
            narrower=int(q.gradient_bytes < q.reduce_bytes),
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
    """The same of what is outside the layers."""
    return role.root_parameters + scene.padding(role, "root")


@once
def _gather_buffer(scene: Scene, role: Role) -> Term:
    return sharding.GATHER_BUFFER(
        role.name,
        layer_parameters=_flat(scene, role),
        value_bytes=_travelling(scene),
    )


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
