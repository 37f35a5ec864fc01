"""What sharded training reduces: gradients of layers, the root, embeddings and heads apart."""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas import sharding
from planner.numeric import minimum
from planner.phases import gathered, units
from planner.phases.role import Role
from planner.phases.scene import Scene, once, shared
from planner.term import Term


def table_reductions(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Input and output of the reduction of an embedding's or a head's gradient."""
    q = scene.q
    reduced = sharding.TABLE_REDUCED(
        role.name,
        table_parameters=units.of_table(scene, role),
        value_bytes=q.reduce_bytes,
        cast_bytes=q.gradient_bytes * (q.gradient_bytes != q.reduce_bytes),
        shards=scene.shards_of("gradients"),
    )
    return _table_reduction(scene, role), reduced


def _table_reduction(scene: Scene, role: Role) -> Term:
    return sharding.TABLE_REDUCE_INPUT(
        role.name, table_parameters=units.of_table(scene, role), value_bytes=scene.q.reduce_bytes
    )


def reduced_head(scene: Scene, role: Role) -> Iterator[Term]:
    """What a head that is a unit of its own has left when the last layer goes backward."""
    if units.head_apart(scene, role):
        yield _table_reduction(scene, role)


def embedding_again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """An embedding of its own while it goes backward, beside the first layer's reduction."""
    flat = units.of_layer(scene, role)
    stays = gathered.layers_stay(scene, role)
    whole = () if stays else (gathered.table(scene, role),)
    return (
        gathered.root(scene, role, True),
        *whole,
        sharding.REDUCE_INPUT(
            role.name, layer_parameters_trained=flat, value_bytes=scene.q.reduce_bytes
        ),
    )


@shared
def at_layer(
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
        above = units.of_root(scene, role) if first else units.of_layer(scene, role)
        flat = trained if role.adapters else above
        yield sharding.REDUCE_INPUT(
            role.name, layer_parameters_trained=flat, value_bytes=q.reduce_bytes
        )
    else:
        yield from reduced_head(scene, role)


def at_end(scene: Scene, role: Role) -> Iterator[Term]:
    """Unsharded root gradients and their reduction when the backward ends."""
    if units.embedding_apart(scene, role):
        yield last_gradient(scene, role, role.arch.vocab * role.arch.hidden)
        yield from table_reductions(scene, role)
    elif scene.fsdp and role.root_trainable:
        late = units.trained_at_end(scene, role)
        yield root_gradients(scene, role, late, tensors=1 if units.apart(scene, role) else 3)
        yield root_reduction(scene, role)


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


@once
def last_gradient(scene: Scene, role: Role, elements: int) -> Term:
    """A unit's last gradient, which a loop of FSDP names until its reduction has an output.

    torch 2.13 ``_fsdp_collectives.py``, ``foreach_reduce``: the loop runs where several GPUs share.
    """
    return sharding.ROOT_GRADIENTS(
        role.name,
        root_parameters_trained=elements * minimum(scene.q.shards - 1, 1),
        value_bytes=scene.q.compute_bytes,
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
    head = role.head_parameters * units.head_apart(scene, role)
    if scene.pads:
        yield sharding.ALL_REDUCED(
            role.name,
            tensors=layers,
            trained_elements=role.layer_trainable * layers + head,
            shards=scene.shards_of("gradients"),
            value_bytes=q.reduce_bytes,
            cast=int(q.gradient_bytes != q.reduce_bytes),
            micro_batches=q.micro_batches,
            replicas=q.data_parallel // q.shards,
        )
