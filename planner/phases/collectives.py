"""What sharded training gathers around one layer of a role, and around its head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from planner.formulas import sharding
from planner.numeric import Num, minimum
from planner.phases import found, gathered, units, vocabulary
from planner.phases.role import Role
from planner.phases.scene import Scene, once, shared
from planner.term import Term
from planner.values.model_setup import Use

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
    if scene.zero_stage == 3 and backward_of is not None:
        return gathered.zero3(scene, role, "backward", backward_of)
    whole = 0 if backward_of is None else backward_of + 1
    layers = (whole or role.arch.layers) if gathered.layers_stay(scene, role) else 1
    # A backward whose layers are still whole has nothing to gather.
    kept = whole and not scene.plan.reshard_after_forward
    left = not whole and gathered.finds_gathered(scene, role, trains)
    arriving: Arriving = "" if kept else "layer"
    if whole == 1 and not kept:
        arriving = "embedding" if units.apart(scene, role) else ""
    if not whole and found.by_reference(scene, role) and gathered.layers_stay(scene, role):
        arriving = ""
    # A forward's layers come before its head, unless an earlier forward has left that whole.
    headless = whole > 0 or (scene.fsdp and not left)
    around = _around(scene, role, layers, arriving, left, trains, headless=headless)
    if trains:
        around = (*around, *found.head(scene, role))
    if whole == 1 and not kept and units.tables_apart(scene, role):
        # Below the first layer there is an embedding that is a unit of its own.
        return (*around, gathered.table_buffer(scene, role))
    return around


def at_head(
    scene: Scene,
    role: Role,
    *,
    backward: bool = False,
    trains: bool = False,
    asks: bool = True,
) -> tuple[Term, ...]:
    """Gathered weights while head and loss compute, or go backward.

    ``asks`` says that whoever goes backward has asked for the layer before it.
    """
    stay = gathered.layers_stay(scene, role)
    left = not backward and gathered.finds_gathered(scene, role, trains)
    divided = units.tables_apart(scene, role) == units.BOTH
    own = (gathered.table(scene, role),) if divided and not stay else ()
    # A backward whose layers are still whole has nothing to gather ahead.
    arriving: Arriving = "" if backward and (stay or not asks) else "layer"
    if units.apart(scene, role) and not (backward or units.head_by_loss(scene, role)):
        arriving = "head"
    elif stay and not backward and found.by_reference(scene, role):
        arriving = ""
    if divided and not backward:
        arriving = "table"
    layers = stay * role.arch.layers
    return (*own, *_around(scene, role, layers, arriving, left, trains, head=True))


def above_layers(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Gathered weights when a head has gone backward, and the last layer is next."""
    if units.head_by_loss(scene, role):
        return at_layer(scene, role, backward_of=role.arch.layers - 1)
    if units.tables_apart(scene, role) < units.BOTH:
        return at_head(scene, role, backward=True)
    return below(scene, role, role.arch.layers)


def below(scene: Scene, role: Role, layers: int) -> tuple[Term, ...]:
    """Gathered weights when a unit above the first ``layers`` has gone backward, and is sharded."""
    stay = gathered.layers_stay(scene, role)
    arriving: Arriving = "" if stay else "layer"
    return _around(scene, role, stay * layers, arriving, headless=True)


def beside_loss(
    scene: Scene, role: Role, inside: bool, *, backward: bool = False, trains: bool = False
) -> tuple[Term, ...]:
    """Gathered weights while a loss computes, or goes backward.

    Where it takes the model's output, its forward has ended by then, and its root may be resharded;
    ``inside`` says that the instant is one of the head itself. Chunks are scored by the model.
    """
    outside = vocabulary.way(scene).outside_model and not inside
    outside = outside and (role.value_head or vocabulary.path(scene) == "full")
    if not (scene.fsdp and outside) or gathered.wrapped_whole(scene, role):
        # A head's unit hears of the backward by its logits' gradient, which the loss makes first.
        made = vocabulary.path(scene) in vocabulary.MATERIALISED and not role.value_head
        asks = inside or not (units.head_stays(scene) and made)
        return at_head(scene, role, backward=backward, trains=trains, asks=asks)
    if gathered.root_stays(scene, role):
        layers = gathered.layers_stay(scene, role) * role.arch.layers
        return _around(scene, role, layers, "", head=True)
    return (gathered.pool(scene, role, live_bytes=0),)


def left_gathered(scene: Scene, role: Role, use: Use) -> Iterator[Term]:
    """Weights that forwards without gradient at other moments have left gathered.

    Those of the policy until its backward, those of a model without one from the first step on;
    a critic's own update is what follows its forward.
    """
    model, plan = scene.setup[role.name], scene.plan
    if gathered.reference_stays(scene, role) and use.loaded and not use.computes:
        yield gathered.reference(scene, role)
    left = use.between and not role.value_head if role.trained else use.loaded
    left = left and gathered.leaves_gathered(scene) and model.waits != "host"
    left = left and scene.spreads(role)
    if not left or use.computes:
        return
    if gathered.root_stays(scene, role):
        # verl's EngineEvalModeCtx reshards the root's own where fsdp_size is above 1.
        tables = units.tables_apart(scene, role) * units.of_table(scene, role)
        own = (units.of_root(scene, role) - tables) * (plan.shard_size <= 1)
        flat = gathered.flat(scene) and not role.trained
        formula = sharding.FLAT_ROOT if flat else sharding.GATHERED_ROOT
        yield formula(
            role.name,
            root_parameters=own + tables,
            value_bytes=scene.q.compute_bytes,
            tensors=1 if flat else 3,
        )
    if gathered.layers_stay(scene, role):
        yield gathered.layers(scene, role, role.arch.layers)


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
    computes, or its loss; one of its own that is yet to come, or has gone backward, is not whole
    (``headless``).
    """
    if gathered.wrapped_whole(scene, role):
        stays = gathered.reference_stays(scene, role)
        if not (stays and found.in_update(scene)):
            # Otherwise it is among what an update stands on.
            yield gathered.reference(scene, role)
        if not stays:
            yield sharding.WHOLE_GATHER_BUFFER(
                role.name, parameters=role.parameters, value_bytes=gathered.travelling(scene)
            )
    elif scene.spreads(role):
        yield from _outside(scene, role, head, headless)
        if layers:
            yield gathered.layers(scene, role, layers)
        stay = gathered.layers_stay(scene, role)
        there = trains and found.by_training(scene, role) and (stay or arriving == "head")
        buffers = tuple(gathered.BUFFERS[one](scene, role, there) for one in (arriving,) if one)
        if there and not stay:
            buffers = (*buffers, found.layer_buffer(scene, role))
        if left and arriving:
            buffers = (gathered.left_buffer(scene, role, trains, arriving == "table"),)
        yield from buffers
        yield gathered.pool(scene, role, live_bytes=sum(buffer.bytes for buffer in buffers))
    else:
        yield from gathered.zero3(scene, role, "head" if head or headless else "forward")


def _outside(scene: Scene, role: Role, head: bool, headless: bool = False) -> Iterator[Term]:
    """Gathered weights outside the layers."""
    if head or not units.apart(scene, role):
        yield gathered.root(scene, role, headless)
    if units.apart(scene, role) and gathered.layers_stay(scene, role):
        yield gathered.table(scene, role)


def arrivals(
    scene: Scene, role: Role, trains: bool = False
) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """A layer's weights arrive in a forward, by name of the instant; FSDP only.

    ``trains`` says that it keeps what its backward needs. A group's flat buffer is freed when the
    next group has been copied out of its own: the root's beside the first layer's, a layer's beside
    the next one's.
    """
    whole = gathered.wrapped_whole(scene, role) or gathered.finds_gathered(scene, role)
    stay, first = gathered.layers_stay(scene, role), gathered.layers(scene, role, 1)
    answers = found.by_reference(scene, role)
    if not scene.spreads(role) or whole or (answers and stay):
        return
    # Units that stay are there already for an update's first micro-batch.
    there = trains and found.by_training(scene, role)
    left = (trains and gathered.finds_gathered(scene, role, trains)) or (there and stay)
    own, layers = gathered.layer_buffer(scene, role, left), role.arch.layers
    all_layers = gathered.layers(scene, role, layers) if stay else first
    stays = tuple(_outside(scene, role, head=False, headless=True))
    head = found.head(scene, role) if trains else ()
    copy, cast = gathered.arriving_copy(scene, role), gathered.arriving_layer(scene, role)[:1]
    if units.apart(scene, role):
        buffer = gathered.table_buffer(scene, role, left)
        yield EMBEDDING_ARRIVES, (gathered.table(scene, role), buffer, *copy, *head)
        yield FIRST_ARRIVES, (*stays, buffer, first, own, *cast, *head)
        if not units.head_by_loss(scene, role):
            arrived = gathered.root_arrived(scene, role, there)
            yield HEAD_ARRIVES, (*(*stays, all_layers) * stay, *arrived, own, *copy)
    elif units.tables_apart(scene, role):
        table, buffer = gathered.table(scene, role), gathered.table_buffer(scene, role, left)
        tables = () if stay else (table,)
        yield "first all-gather, of the embedding", (*stays, *tables, buffer, *copy)
        yield FIRST_ARRIVES, (*stays, first, own, buffer, *cast)
        if units.tables_apart(scene, role) == units.BOTH:
            beside = (all_layers, table) if stay else tables
            yield HEAD_ARRIVES, (*stays, *beside, own, buffer, *copy)
    elif not answers:
        root = gathered.root_arrived(scene, role, left or there)
        yield "first all-gather, of the root", (*root, *copy)
        yield FIRST_ARRIVES, (*root, first, own, *cast)
    if layers > 1:
        yield "a layer's all-gather", (*stays, all_layers, own, own, *cast, *head)


EMBEDDING_ARRIVES = "embedding's all-gather"
"""FSDP's first instant of a forward, where the embedding is a unit of its own."""
FIRST_ARRIVES = "first layer's all-gather"
"""FSDP's first instant of a forward's layers."""
HEAD_ARRIVES = "head's all-gather"
"""FSDP's last instant of a forward's layers, where the head is a unit of its own."""


def before_layers(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What a forward has gathered until its first layer, beside the buffer it came in."""
    if scene.spreads(role) and units.apart(scene, role):
        return gathered.table(scene, role), gathered.table_buffer(scene, role)
    if scene.spreads(role):
        return gathered.root_arrived(scene, role)
    return gathered.zero3(scene, role, "embedding")


def again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The root's weights as a backward begins, beside the buffer they arrive in; FSDP only."""
    if units.head_stays(scene):
        return ()
    whole = gathered.root_stays(scene, role) or gathered.wrapped_whole(scene, role)
    if whole or not scene.fsdp:
        return ()
    if units.tables_apart(scene, role) == units.BOTH:
        table = gathered.table(scene, role), gathered.table_buffer(scene, role)
        return gathered.root(scene, role), *table, *gathered.arriving_copy(scene, role)
    return *gathered.root_arrived(scene, role), *gathered.arriving_copy(scene, role)


def kept_for_backward(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Weights that stay gathered between forward and backward."""
    if units.head_by_loss(scene, role):
        return (gathered.root(scene, role),)
    if not units.head_stays(scene):
        return ()
    stay = gathered.layers_stay(scene, role)
    layers = (gathered.layers(scene, role, role.arch.layers),) * stay
    return (*_outside(scene, role, head=True), *layers)


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


@once
def left_for_reference(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What the policy's old log-probs leave gathered beside a reference, in accelerate's units."""
    left = left_by_another(scene, role)
    if units.head_stays(scene) and gathered.layers_stay(scene, role):
        tables = (gathered.table(scene, role),) if units.apart(scene, role) else ()
        left = (*left, *tables, gathered.layers(scene, role, role.arch.layers))
    return left
