"""What sharding has gathered of a role: units while they are whole, and what they arrived in."""

from __future__ import annotations

from typing import Literal

from planner.formulas import sharding
from planner.numeric import Num, minimum
from planner.phases import units, zero
from planner.phases.role import Role
from planner.phases.scene import Scene, once
from planner.plan.loss import path_of
from planner.term import Term
from planner.values.sharding import sharding_of
from planner.values.zero import ZERO


@once
def root_arrived(scene: Scene, role: Role, left: bool = False) -> tuple[Term, ...]:
    """The root's weights beside the buffer they arrived in."""
    return root(scene, role), root_buffer(scene, role, left)


@once
def root_buffer(scene: Scene, role: Role, left: bool = False) -> Term:
    """What the root's arrive in; ``left`` as of a layer's (:func:`layer_buffer`).

    Flat weights are gathered where they stay, and no unit was gathered before the root's.
    """
    width = 0 if flat(scene) else travelling(scene, left)
    return sharding.ROOT_GATHER_BUFFER(
        role.name, root_parameters=units.of_root(scene, role), value_bytes=width
    )


def layers_stay(scene: Scene, role: Role) -> bool:
    """Whether layers stay gathered after their forward; a frozen model's do where ours is not."""
    stay = role.trained or leaves_gathered(scene)
    return stay and not scene.plan.reshard_after_forward


def root_stays(scene: Scene, role: Role) -> bool:
    """Whether the root does, too: FSDP1 never reshards it after a forward."""
    return flat(scene) or layers_stay(scene, role)


def wrapped_whole(scene: Scene, role: Role) -> bool:
    """Whether a forward gathers the whole reference, which is one unit to FSDP2."""
    return scene.fsdp and scene.setup[role.name].spread == "whole"


def reference_stays(scene: Scene, role: Role) -> bool:
    """Whether that one is whole from its first forward on: no backward ever reshards it."""
    return wrapped_whole(scene, role) and not scene.plan.reshard_after_forward


@once
def reference(scene: Scene, role: Role) -> Term:
    """A reference that is one unit, while it is whole."""
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
    if layers_stay(scene, role):
        apart = int(headless and apart == units.BOTH)
    width: Num = scene.q.compute_bytes
    if units.head_by_loss(scene, role):
        # One GPU has the whole of it already.
        width = role.weight_bytes * minimum(scene.q.shards - 1, 1)
    return sharding.GATHERED_ROOT(
        role.name,
        root_parameters=units.of_root(scene, role) - apart * units.of_table(scene, role),
        value_bytes=width,
        tensors=3,
    )


@once
def table(scene: Scene, role: Role) -> Term:
    """An embedding or a head that is a unit of its own, while it is whole."""
    return sharding.GATHERED_TABLE(
        role.name, table_parameters=units.of_table(scene, role), value_bytes=scene.q.compute_bytes
    )


@once
def table_buffer(scene: Scene, role: Role, left: bool = False) -> Term:
    """What those arrive in; ``left`` as of a layer's (:func:`layer_buffer`)."""
    return sharding.TABLE_GATHER_BUFFER(
        role.name, table_parameters=units.of_table(scene, role), value_bytes=travelling(scene, left)
    )


@once
def arriving_copy(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What one GPU has of a table beside the weight that computes, as it is put together.

    Of several GPUs each brings its part, which is less than what they gather. FSDP1's flat weights
    are cast where they are gathered. FSDP2's own policy for host RAM copies a weight to the GPU as
    it is stored; our own step has none, and copies it straight into what computes.
    """
    return () if flat(scene) else (_copy(scene, role, role.arch.vocab * role.arch.hidden),)


@once
def arriving_layer(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The same of a layer's largest weight; of several GPUs the shards that each brings."""
    if flat(scene):
        return ()
    casts = _streamed(scene, role) or role.weight_bytes != scene.q.compute_bytes
    return (
        _copy(scene, role, role.largest_layer_weight, "copy of an arriving weight"),
        sharding.ARRIVING_SHARDS(
            role.name,
            layer_parameters=units.of_layer(scene, role),
            value_bytes=scene.q.compute_bytes * casts,
            shards=scene.q.shards,
        ),
    )


def _copy(scene: Scene, role: Role, elements: Num, label: str = "") -> Term:
    stored, used = role.weight_bytes, scene.q.compute_bytes
    return sharding.ARRIVING_COPY(
        role.name,
        label=label,
        table_parameters=elements,
        value_bytes=stored if _streamed(scene, role) else used * (stored != used),
        shards=scene.q.shards,
    )


def _streamed(scene: Scene, role: Role) -> bool:
    """Whether FSDP2's own policy brings weights from host RAM, unit by unit."""
    waits = scene.setup[role.name].waits == "host, streamed"
    streamed = waits or (role.trained and scene.plan.offload == "all")
    return streamed and not scene.framework.steps_are_ours


@once
def layers(scene: Scene, role: Role, count: int) -> Term:
    """``count`` layers that are whole."""
    return sharding.GATHERED_LAYERS(
        role.name,
        gathered_layers=count,
        layer_parameters=units.of_layer(scene, role),
        value_bytes=scene.q.compute_bytes,
        tensors=count * 9,
    )


def leaves_gathered(scene: Scene) -> bool:
    """Whether weights stay as a forward without gradient has left them."""
    return scene.fsdp and (scene.framework.leaves_gathered or flat(scene))


def flat(scene: Scene) -> bool:
    """Whether units are FSDP1's, with flat weights: after a forward its root is never resharded.

    torch 2.13 ``_runtime_utils.py``, ``_post_forward_reshard``: ``not state._is_root``. The plain
    step wraps by FSDP2 whatever the plan says.
    """
    return sharding_of(scene.plan).fsdp == 1 and not scene.framework.steps_are_ours


def finds_gathered(scene: Scene, role: Role, trains: bool = False) -> bool:
    """Whether a forward finds layers gathered that an earlier one without gradient has left.

    A frozen model's are those of the step before, a reference's of the policy's weights those of
    its old log-probs.
    """
    kept = leaves_gathered(scene) and scene.setup[role.name].waits != "host"
    whole = kept and layers_stay(scene, role)
    return whole and (trains or not role.trained or role.disabled)


def left_buffer(scene: Scene, role: Role, trains: bool, table: bool) -> Term:
    """What the last group that was gathered has arrived in."""
    q = scene.q
    trained = scene.sharded_trainable(role) // scene.shards_of("gradients")
    apart = units.tables_apart(scene, role)
    tables = apart * units.of_table(scene, role)
    # Counted as whole, which it is in the first micro-batch alone.
    head = units.of_table(scene, role) * (apart == units.BOTH and not table)
    return sharding.LEFT_GATHER_BUFFER(
        role.name,
        layer_parameters=units.of_table(scene, role) if table else units.of_layer(scene, role),
        root_parameters=units.of_root(scene, role) - tables,
        value_bytes=travelling(scene),
        again=trains * after_first(scene),
        whole_parameters=head,
        fsdp_size=scene.plan.shard_size,
        earlier_gradients_bytes=trains * minimum(q.micro_batches - 1, 1) * trained
        * q.gradient_bytes,
    )


def pool(scene: Scene, role: Role, live_bytes: Num) -> Term:
    """What the all-gather stream has cached beside its live buffer."""
    apart = units.tables_apart(scene, role)
    return sharding.GATHER_POOL(
        role.name,
        root_parameters=units.of_table(scene, role) if apart else units.of_root(scene, role),
        layer_parameters=units.of_layer(scene, role),
        value_bytes=travelling(scene),
        live_bytes=live_bytes,
    )


@once
def layer_buffer(scene: Scene, role: Role, left: bool = False) -> Term:
    """What a layer's arrive in.

    ``left`` says that an earlier forward has left everything whole for an update's first
    micro-batch: only the others gather.
    """
    return sharding.GATHER_BUFFER(
        role.name,
        layer_parameters=units.of_layer(scene, role),
        value_bytes=travelling(scene, left),
    )


BUFFERS = {
    "layer": layer_buffer,
    "embedding": table_buffer,
    "head": root_buffer,
    "table": table_buffer,
}
"""What a unit's weights arrive in."""


def travelling(scene: Scene, left: bool = False) -> Num:
    """Bytes of a weight on its way: none where there is one shard, which is cast and not gathered.

    torch 2.13 ``_fsdp_param_group.py``, ``unshard``: ``if world_size == 1``. Nor is it where it was
    ``left`` whole, and no backward has let go of it.
    """
    gathers = scene.q.shards > 1
    return scene.q.compute_bytes * gathers * (after_first(scene) if left else 1)


def after_first(scene: Scene) -> Num:
    """1 where a step's update has micro-batches after its first, else 0."""
    return minimum(scene.q.micro_batches * scene.q.updates_per_step - 1, 1)


def zero3(
    scene: Scene,
    role: Role,
    when: Literal["embedding", "forward", "head", "backward"],
    place: int = 0,
) -> tuple[Term, ...]:
    """What DeepSpeed's third stage has gathered; nothing of others.

    A ``forward``'s layers were all fetched ahead but for the embedding; later only those that a
    billion live weights have left no room for are. A head that a loss reads, and nobody calls, is
    whole from the model's own forward to the end of its backward. What has gone ``backward`` is
    released; the layer at ``place`` does, and beside the first one the embedding is fetched.
    """
    if scene.zero_stage != 3:
        return ()
    live, table = ZERO.stage3_max_live_parameters, role.arch.vocab * role.arch.hidden
    reads = path_of(scene.plan) not in ("full", "response") and not role.value_head
    own_table = 0 if role.arch.tied and reads else table
    least, called = ZERO.stage3_param_persistence_threshold, role.head_parameters * (not reads)
    following, released = 0, 0
    if when == "forward":
        following = called
    elif when == "backward":
        following = own_table * (place <= 0)
        released = zero.elements_above(role, place, least) + called * (not role.arch.tied)
    return (
        sharding.ZERO3_ARRIVED(
            role.name,
            fetched_together=zero.fetched_together(role, least, ZERO.stage3_prefetch_bucket_size),
            parameters=role.parameters,
            whole=table if when in ("embedding", "forward") else live,
            value_bytes=scene.q.compute_bytes,
        ),
        sharding.ZERO3_LIVE(
            role.name,
            parameters=role.parameters - released,
            max_live=live,
            held=role.head_parameters * (reads or when == "head")
            + own_table * (when == "embedding"),
            following=max(zero.largest_module(role), following),
            value_bytes=scene.q.compute_bytes,
            layout=role.layout,
        ),
    )
