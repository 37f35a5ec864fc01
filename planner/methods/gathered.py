"""What sharded training gathers and reduces around one layer of a role."""

from __future__ import annotations

from planner.footprint import Term
from planner.formulas import sharding
from planner.methods.role import Role
from planner.methods.scene import Scene


def at_layer(scene: Scene, role: Role, *, whole_layers: int = 0) -> tuple[Term, ...]:
    """Gathered weights while a layer of the role computes (forward or backward).

    ``whole_layers`` are still gathered in a backward whose layers were not resharded after
    their forward; 0 says that it is a forward, which ends with all of them.
    """
    if _wrapped_whole(scene, role):
        return _whole(scene, role)
    if scene.fsdp:
        layers = _layers(scene, role, whole_layers)
        # A backward whose layers are still whole has nothing to gather.
        kept = whole_layers and not scene.plan.reshard_after_forward
        buffer = () if kept else (_gather_buffer(scene, role),)
        return (*root(scene, role), *layers, *buffer, _pool(scene, role, buffer))
    return _zero3(scene, role)


def at_head(scene: Scene, role: Role, *, gradient: bool) -> tuple[Term, ...]:
    """Gathered weights while head and loss compute."""
    if _wrapped_whole(scene, role):
        return _whole(scene, role)
    if scene.fsdp:
        kept = gradient and not scene.plan.reshard_after_forward
        layers = _layers(scene, role, 0) if kept else ()
        buffer = (_gather_buffer(scene, role),)
        return (*root(scene, role), *layers, *buffer, _pool(scene, role, buffer))
    return _zero3(scene, role)


def _wrapped_whole(scene: Scene, role: Role) -> bool:
    """TRL shards its reference as one unit, which a forward gathers whole."""
    return scene.fsdp and role.name == "reference" and scene.plan.framework == "trl"


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
            root_parameters=role.root_parameters,
            value_bytes=scene.q.compute_bytes,
            tensors=3,
        ),
    )


def reductions_at_layer(scene: Scene, role: Role, *, first: bool = False) -> tuple[Term, ...]:
    """Unsharded gradients and reduce buffers while a layer's backward runs.

    The ``first`` layer to go backward finds no earlier layer's gradients being reduced.
    """
    q = scene.q
    if scene.fsdp:
        own = sharding.UNSHARDED_GRADIENTS(
            role.name, layer_parameters_trained=role.layer_trainable, value_bytes=q.compute_bytes
        )
        earlier = sharding.REDUCE_INPUT(
            role.name, layer_parameters_trained=role.layer_trainable, value_bytes=q.reduce_bytes
        )
        return (own,) if first else (own, earlier)
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
            sharding.ROOT_REDUCE_INPUT(
                role.name,
                root_parameters_trained=role.root_trainable,
                value_bytes=q.reduce_bytes,
            ),
        )
    if scene.zero_stage >= 2:
        return (_zero_buckets(scene, role),)
    return ()


def _zero_buckets(scene: Scene, role: Role) -> Term:
    return sharding.ZERO_BUCKETS(
        role.name, trainable=role.trainable, value_bytes=scene.q.gradient_bytes, tensors=2
    )


def _layers(scene: Scene, role: Role, whole_layers: int) -> tuple[Term, ...]:
    count = 1 if scene.plan.reshard_after_forward else (whole_layers or role.arch.layers)
    return (
        sharding.GATHERED_LAYERS(
            role.name,
            gathered_layers=count,
            layer_parameters=role.layer_parameters + role.layer_adapters,
            value_bytes=scene.q.compute_bytes,
            tensors=count * 9,
        ),
    )


def _pool(scene: Scene, role: Role, buffer: tuple[Term, ...]) -> Term:
    """What the all-gather stream has cached beside its live buffer."""
    return sharding.GATHER_POOL(
        role.name,
        root_parameters=role.root_parameters,
        layer_parameters=role.layer_parameters + role.layer_adapters,
        value_bytes=scene.q.compute_bytes,
        live_bytes=sum(term.bytes for term in buffer),
    )


def _gather_buffer(scene: Scene, role: Role) -> Term:
    return sharding.GATHER_BUFFER(
        role.name,
        layer_parameters=role.layer_parameters + role.layer_adapters,
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
