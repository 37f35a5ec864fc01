"""What sharded training reduces: gradients of layers, the root, embeddings and heads apart."""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas import sharding, state
from planner.numeric import Num, minimum
from planner.phases import gathered, units
from planner.phases.role import Role
from planner.phases.scene import Scene, once, shared
from planner.term import Term


def table_reductions(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Input and output of the reduction of an embedding's or a head's gradient."""
    return _table_reduction(scene, role), _unit_reduced(scene, role, units.of_table(scene, role))


def head_reductions(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The same where a head's unit is accelerate's, with the final norm."""
    flat, trained = units.of_root(scene, role), units.trained_of_head(scene, role)
    gradient = last_gradient(scene, role, trained * _first_whole(scene))
    # Of several GPUs the same loop still names it.
    gone = _given_back(scene, role, trained * (1 - minimum(scene.q.shards - 1, 1)))
    reduced = sharding.TABLE_REDUCE_INPUT(
        role.name, table_parameters=flat, value_bytes=scene.q.reduce_bytes
    )
    return gradient, reduced, _unit_reduced(scene, role, flat), *gone


def _first_whole(scene: Scene) -> Num:
    """0 where a unit's gradients are added to whole ones that are counted already, else 1."""
    return 1 - scene.passes_on if scene.whole_gradient_bytes else 1


def _unit_reduced(scene: Scene, role: Role, elements: Num) -> Term:
    q = scene.q
    return sharding.UNIT_REDUCED(
        role.name,
        trained_elements=elements,
        value_bytes=q.reduce_bytes,
        cast_bytes=q.gradient_bytes * (q.gradient_bytes != q.reduce_bytes),
        shards=scene.shards_of("gradients"),
    )


def layer_copied(scene: Scene, role: Role) -> tuple[Term, ...]:
    """A layer's gradients as they are copied into the input of their reduction."""
    whole = sharding.UNSHARDED_GRADIENTS(
        role.name,
        layer_parameters_trained=role.layer_trainable * _first_whole(scene),
        value_bytes=scene.q.compute_bytes,
    )
    return whole, _layer_reduction(scene, role)


def layer_reduced(scene: Scene, role: Role) -> tuple[Term, ...]:
    """That input beside what is reduced of it."""
    reduced = _unit_reduced(scene, role, _flat_layer(scene, role))
    return _layer_reduction(scene, role), reduced, *_given_back(scene, role, role.layer_trainable)


def _given_back(scene: Scene, role: Role, elements: Num) -> Iterator[Term]:
    """Whole gradients of earlier micro-batches that have been copied into a reduction."""
    if scene.whole_gradient_bytes:
        yield state.REDUCED_ABOVE(
            role.name,
            trainable_above=elements,
            whole_bytes=scene.whole_gradient_bytes,
            shards=1,
            value_bytes=0,
            micro_batches=scene.q.micro_batches,
        )


def _layer_reduction(scene: Scene, role: Role) -> Term:
    return sharding.REDUCE_INPUT(
        role.name,
        layer_parameters_trained=_flat_layer(scene, role),
        value_bytes=scene.q.reduce_bytes,
    )


def _flat_layer(scene: Scene, role: Role) -> Num:
    return role.layer_trainable if role.adapters else units.of_layer(scene, role)


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


def last_gradient(scene: Scene, role: Role, elements: Num) -> Term:
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
    """Output of that reduction, where it is no gradient that is counted already."""
    waits = scene.plan.offload == "all"
    return sharding.REDUCE_OUTPUT(
        role.name,
        trained_elements=units.trained_at_end(scene, role),
        shards=scene.shards_of("gradients"),
        value_bytes=scene.q.reduce_bytes,
        cast_bytes=scene.q.gradient_bytes,
        cast=int(scene.q.gradient_bytes != scene.q.reduce_bytes),
        apart=1 if waits else _adds(scene),
    )


def _adds(scene: Scene) -> Num:
    """1 where what is reduced is added to gradients of earlier micro-batches, else 0."""
    once = scene.setup.reduces_once or scene.setup.steps_in_backward
    return 0 if once else scene.passes_on


def held_for_all_reduce(scene: Scene, role: Role, layers: int) -> Iterator[Term]:
    """What hybrid sharding keeps of the reductions of ``layers`` layers until the backward ends."""
    q = scene.q
    head = role.head_parameters * units.head_apart(scene, role)
    head += units.trained_of_head(scene, role)
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
