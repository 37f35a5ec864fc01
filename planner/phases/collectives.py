"""What sharded training gathers and reduces around one layer of a role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from planner.footprint import Term
from planner.formulas import sharding
from planner.numeric import Num, minimum, round_up
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
    layers = (whole or role.arch.layers) if _stays_whole(scene, role) else 1
    # A backward whose layers are still whole has nothing to gather.
    kept = whole and not scene.plan.reshard_after_forward
    left = not whole and _finds_gathered(scene, role, trains)
    arriving: Arriving = "" if kept else "layer"
    if whole == 1 and not kept:
        arriving = "embedding" if units.apart(scene, role) else ""
    # Below the first layer there is an embedding that is a unit of its own.
    ahead = (_table_buffer(scene, role),) if whole == 1 and _apart(scene, role) and not kept else ()
    around = _around(scene, role, layers, arriving, left, trains, headless=whole > 0)
    return (*around, *ahead)


def at_head(
    scene: Scene, role: Role, *, backward: bool = False, trains: bool = False
) -> tuple[Term, ...]:
    """Gathered weights while head and loss compute, or go backward."""
    stay = _stays_whole(scene, role)
    left = not backward and _finds_gathered(scene, role, trains)
    own = () if stay or _apart(scene, role) < BOTH else (_gathered_table(scene, role),)
    # A backward whose layers are still whole has nothing to gather ahead.
    arriving: Arriving = "" if backward and stay else "layer"
    if units.apart(scene, role) and not backward:
        arriving = "head"
    if _apart(scene, role) == BOTH and not backward:
        arriving = "table"
    layers = stay * role.arch.layers
    return (*own, *_around(scene, role, layers, arriving, left, trains, head=True))


def above_layers(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Gathered weights when a head has gone backward, and the last layer is next."""
    if _apart(scene, role) < BOTH:
        return at_head(scene, role, backward=True)
    stay = _stays_whole(scene, role)
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
        layers = _stays_whole(scene, role) * role.arch.layers
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
    left = moment in BETWEEN and not role.value_head if role.trained else moment != "load"
    if not _leaves_gathered(scene) or not left or moment in model.used_in or model.waits == "host":
        return
    if _root_stays(scene, role):
        # verl's EngineEvalModeCtx reshards the root's own where fsdp_size is above 1.
        tables = _apart(scene, role) * _table(scene, role)
        own = (_flat_root(scene, role) - tables) * (plan.shard_size <= 1)
        yield sharding.GATHERED_ROOT(
            role.name,
            root_parameters=own + tables,
            value_bytes=scene.q.compute_bytes,
            tensors=3,
        )
    if _stays_whole(scene, role):
        yield _gathered(scene, role, role.arch.layers)


def _leaves_gathered(scene: Scene) -> bool:
    return scene.fsdp and scene.framework.leaves_gathered


def _finds_gathered(scene: Scene, role: Role, trains: bool = False) -> bool:
    """Whether a forward finds layers gathered that an earlier one without gradient has left.

    A frozen model's are those of the step before, a reference's of the policy's weights those of
    its old log-probs.
    """
    kept = _leaves_gathered(scene) and scene.setup[role.name].waits != "host"
    whole = kept and _stays_whole(scene, role)
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
        width, parameters = scene.q.compute_bytes, role.parameters
        yield sharding.WHOLE_COPY(
            role.name, layout=role.layout, parameters=parameters, value_bytes=width
        )
        yield sharding.WHOLE_GATHER_BUFFER(
            role.name, parameters=parameters, value_bytes=_travelling(scene)
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
    if units.apart(scene, role) and _stays_whole(scene, role):
        yield embedding(scene, role)


def _pool(scene: Scene, role: Role, live_bytes: Num) -> Term:
    """What the all-gather stream has cached beside its live buffer."""
    apart = _apart(scene, role)
    return sharding.GATHER_POOL(
        role.name,
        root_parameters=_table(scene, role) if apart else _flat_root(scene, role),
        layer_parameters=_flat(scene, role),
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
    stay, first = _stays_whole(scene, role), _gathered(scene, role, 1)
    whole = _gathered(scene, role, layers) if stay else first
    stays = tuple(_outside(scene, role, head=False))
    if units.apart(scene, role):
        yield "embedding's weights arrive", (*stays, *before_layers(scene, role))
        yield FIRST_ARRIVES, (*stays, _embedding_buffer(scene, role), first, own)
        yield HEAD_ARRIVES, (*(*stays, whole) * stay, *_root(scene, role), own)
    elif _apart(scene, role):
        table, buffer = _gathered_table(scene, role), _table_buffer(scene, role)
        tables = () if stay else (table,)
        yield "first weights, the embedding's, arrive", (*stays, *tables, buffer)
        yield FIRST_ARRIVES, (*stays, first, own, buffer)
        if _apart(scene, role) == BOTH:
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
        return embedding(scene, role), _embedding_buffer(scene, role)
    return _root(scene, role) if scene.fsdp else _zero3(scene, role)


def again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The root's weights as a backward begins, beside the buffer they arrive in; FSDP only."""
    if units.head_stays(scene):
        return ()
    whole = _root_stays(scene, role) or _wrapped_whole(scene, role)
    if whole or not scene.fsdp:
        return ()
    if _apart(scene, role) == BOTH:
        return root(scene, role), _gathered_table(scene, role), _table_buffer(scene, role)
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
            root_parameters=_flat_root(scene, role) * again,
            value_bytes=scene.q.compute_bytes,
        ),
    )


@once
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
    """Whether layers stay gathered after their forward; a frozen model's do where ours is not."""
    stay = role.trained or _leaves_gathered(scene)
    return stay and not scene.plan.reshard_after_forward


def _root_stays(scene: Scene, role: Role) -> bool:
    """Whether the root does, too: FSDP1 never reshards it after a forward.

    torch 2.13 ``_runtime_utils.py``, ``_post_forward_reshard``: ``not state._is_root``. The plain
    step wraps by FSDP2 whatever the plan says.
    """
    flat = scene.plan.sharding == "fsdp1" and _leaves_gathered(scene)
    return flat or _stays_whole(scene, role)


def _wrapped_whole(scene: Scene, role: Role) -> bool:
    """Whether a forward gathers the whole reference, which is one unit to FSDP."""
    return scene.fsdp and role.name == "reference" and scene.framework.reference_gathered_whole


@once
def root(scene: Scene, role: Role, headless: bool = False) -> Term:
    """The root group's gathered weights; with tables of their own where they stay whole."""
    apart = _apart(scene, role)
    if _stays_whole(scene, role):
        apart = int(headless and apart == BOTH)
    return sharding.GATHERED_ROOT(
        role.name,
        root_parameters=_flat_root(scene, role) - apart * _table(scene, role),
        value_bytes=scene.q.compute_bytes,
        tensors=3,
    )


BOTH = 2
"""Tables of a model with a head over the vocabulary."""


def _apart(scene: Scene, role: Role) -> int:
    """How many tables over the vocabulary are units of their own: embedding, and head."""
    wraps = scene.framework.wraps_tables and scene.plan.sharding == "fsdp2"
    return 0 if not wraps or role.arch.tied else BOTH - role.value_head


def _table(scene: Scene, role: Role) -> Num:
    """Elements of one of them as they travel."""
    return round_up(role.arch.vocab, scene.q.shards) * role.arch.hidden


@once
def _gathered_table(scene: Scene, role: Role) -> Term:
    return sharding.GATHERED_TABLE(
        role.name, table_parameters=_table(scene, role), value_bytes=scene.q.compute_bytes
    )


@once
def _table_buffer(scene: Scene, role: Role) -> Term:
    return sharding.TABLE_GATHER_BUFFER(
        role.name, table_parameters=_table(scene, role), value_bytes=_travelling(scene)
    )


def head_apart(scene: Scene, role: Role) -> bool:
    """Whether a head over the vocabulary trains as a unit of its own."""
    return _apart(scene, role) == BOTH and role.root_trainable > 0


def embedding_apart(scene: Scene, role: Role) -> bool:
    """Whether the embedding does."""
    return _apart(scene, role) > 0 and role.root_trainable > 0


def table_reductions(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Input and output of the reduction of an embedding's or a head's gradient."""
    reduced = sharding.TABLE_REDUCED(
        role.name,
        table_parameters=_table(scene, role),
        value_bytes=scene.q.reduce_bytes,
        shards=scene.shards_of("gradients"),
    )
    return _table_reduction(scene, role), reduced


def _table_reduction(scene: Scene, role: Role) -> Term:
    return sharding.TABLE_REDUCE_INPUT(
        role.name, table_parameters=_table(scene, role), value_bytes=scene.q.reduce_bytes
    )


def reduced_head(scene: Scene, role: Role) -> Iterator[Term]:
    """What a head that is a unit of its own has left when the last layer goes backward."""
    if head_apart(scene, role):
        yield _table_reduction(scene, role)


def embedding_again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """An embedding of its own while it goes backward, beside the first layer's reduction."""
    flat = _flat(scene, role)
    return (
        root(scene, role, True),
        *(() if _stays_whole(scene, role) else (_gathered_table(scene, role),)),
        sharding.REDUCE_INPUT(
            role.name, layer_parameters_trained=flat, value_bytes=scene.q.reduce_bytes
        ),
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
    of_head = units.trained_of_head(scene, role)
    if scene.fsdp and (of_head or not first):
        above = _flat_root(scene, role) if first else _flat(scene, role)
        flat = trained if role.adapters else above
        yield sharding.REDUCE_INPUT(
            role.name, layer_parameters_trained=flat, value_bytes=q.reduce_bytes
        )
    else:
        yield from reduced_head(scene, role)
    yield from _zero_buckets(scene, role)


def reductions_at_end(scene: Scene, role: Role) -> Iterator[Term]:
    """Unsharded root gradients and their reduction when the backward ends."""
    if embedding_apart(scene, role):
        yield root_gradients(scene, role, role.arch.vocab * role.arch.hidden)
        yield from table_reductions(scene, role)
    elif scene.fsdp and role.root_trainable:
        late = units.trained_at_end(scene, role)
        yield root_gradients(scene, role, late, tensors=1 if units.apart(scene, role) else 3)
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
    head = role.head_parameters * head_apart(scene, role)
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


def _left_buffer(scene: Scene, role: Role, trains: bool, table: bool) -> Term:
    """What the last group that was gathered has arrived in."""
    q = scene.q
    trained = scene.sharded_trainable(role) // scene.shards_of("gradients")
    return sharding.LEFT_GATHER_BUFFER(
        role.name,
        layer_parameters=_table(scene, role) if table else _flat(scene, role),
        root_parameters=_flat_root(scene, role) - _apart(scene, role) * _table(scene, role),
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
        layer_parameters=_flat(scene, role),
        value_bytes=_travelling(scene),
    )


BUFFERS = {
    "layer": _gather_buffer,
    "embedding": _embedding_buffer,
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
