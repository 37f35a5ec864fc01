"""Seconds of collectives and host copies that a pass needs, as far as it does not hide them.

Sharded weights arrive layer by layer, one ahead; replicas reduce their gradients bucket by bucket.
Cards without a link of their own send collectives through the slot that host copies take too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from planner.catalog.efficiencies import typical
from planner.formulas.communication import (
    BARE,
    BUCKET_BYTES,
    DISK_READ,
    DISK_WRITE,
    EXPOSED,
    LATE_REDUCTION,
    PIPELINE,
    all_gather_seconds,
    all_reduce_seconds,
    host_copy_seconds,
    reduce_scatter_seconds,
    slowdown,
)
from planner.numeric import Num, ceil_div, maximum, minimum
from planner.phases.phase import Work
from planner.phases.role import Role
from planner.phases.scene import Scene, once
from planner.term import TimeTerm
from planner.timing.on_host import fetched_bytes
from planner.timing.passing import is_zero
from planner.timing.terms import UNKNOWN
from planner.values.sharding import sharding_of


def exposed(
    scene: Scene, rows: Iterable[Work], compute_seconds: Num, idle_seconds: Num
) -> tuple[TimeTerm, ...] | None:
    """Traffic of a pass that outlasts what it computes; None when nothing says how fast it is.

    ``idle_seconds`` are those of ``compute_seconds`` that the card waits for launches.
    """
    both = compute_seconds, idle_seconds
    found = tuple(term for row in rows for term in _causes(scene, row, *both))
    return found if all(found) else None


def _causes(
    scene: Scene, row: Work, compute_seconds: Num, idle_seconds: Num
) -> Iterator[TimeTerm]:
    if row.run not in ("score", "forward", "backward"):
        if row.run == "optimizer":
            yield from _weights_moved(scene, row)
        return
    if row.run == "score":
        yield from _weights_moved(scene, row)
    if isinstance(row.tokens, int) and not row.tokens:
        yield from _head_alone(scene, row, compute_seconds)
    else:
        yield from _by_layer(scene, row, compute_seconds, idle_seconds)
        if row.run == "backward":
            yield from _replicas(scene, row, compute_seconds, idle_seconds)


def _head_alone(scene: Scene, row: Work, compute_seconds: Num) -> Iterator[TimeTerm]:
    """A head's weights and what the host sends it, behind the pass that it is a part of."""
    sharded = row.gathered and scene.gathers
    size = (row.role.root_parameters if sharded else 0) * scene.q.compute_bytes
    seconds = collective(scene, all_gather_seconds, size, scene.q.shards) if sharded else 0.0
    copies = _copy(scene, row.host_bytes)
    if seconds is None or copies is None:
        yield UNKNOWN
    elif sharded or not is_zero(row.host_bytes):
        yield EXPOSED.term(
            row.role.name,
            communication_seconds=seconds * row.rounds + copies,
            compute_seconds=compute_seconds,
        )


def _by_layer(
    scene: Scene, row: Work, compute_seconds: Num, idle_seconds: Num
) -> Iterator[TimeTerm]:
    """Gathers, reductions and copies that go along with the layers."""
    q, role, plan = scene.q, row.role, scene.plan
    layers, backward = role.arch.layers, row.run == "backward"
    sharded = scene.gathers
    gathers = sharded and row.gathered and (not backward or plan.reshard_after_forward)
    copied = _copied_layer(scene, row)
    if copied is None:
        yield UNKNOWN
        return
    reduces = sharded and backward and role.trained
    if not gathers and not reduces and is_zero(copied):
        return
    gather: Num | None = 0.0
    root, reduce, last = gather, gather, gather
    if gathers:
        gather, root = _gathers(scene, role)
    if reduces:
        reduce, last = _reductions(scene, role)
    if gather is None or root is None or reduce is None or last is None:
        yield UNKNOWN
        return
    layer_seconds = compute_seconds / row.rounds / layers
    label = "all-gather and reduce-scatter" if reduces else "all-gather"
    if not (gathers or reduces):
        label = "host copies"
    first = gather + (0.0 if backward else root)
    reducing = q.updates_per_step if scene.setup.reduces_once else row.rounds
    passes = [(row.rounds, reduce, last)]
    if reduces and scene.setup.reduces_once:
        passes = [(reducing, reduce, last), (maximum(row.rounds - reducing, 0), 0.0, 0.0)]
    for rounds, sent, end in passes:
        traffic = _together(scene, gather + sent, copied)
        yield PIPELINE.term(
            role.name,
            label=f"exposed {label}",
            rounds=rounds,
            first_seconds=first,
            layers=layers,
            traffic_seconds=traffic,
            collective_seconds=gather + sent,
            slowdown=slowdown(scene.facts.gpu),
            layer_seconds=layer_seconds,
            idle_seconds=idle_seconds / row.rounds / layers,
            last_seconds=end,
        )


@once
def _gathers(scene: Scene, role: Role) -> tuple[Num | None, Num | None]:
    """Seconds to gather a layer, and all that is outside of them."""
    width, shards = scene.q.compute_bytes, scene.q.shards
    root = role.root_parameters
    layer = (role.parameters - root + role.adapters) / role.arch.layers
    return (
        collective(scene, all_gather_seconds, layer * width, shards),
        collective(scene, all_gather_seconds, root * width, shards),
    )


@once
def _reductions(scene: Scene, role: Role) -> tuple[Num | None, Num | None]:
    """Seconds to reduce a layer's gradients, and those that come last."""
    q = scene.q
    width = q.reduce_bytes
    root = role.root_trainable
    layer = (role.trainable - root) / role.arch.layers
    return (
        _spread(scene, layer * width, width),
        _spread(scene, (root + layer) * width, width),
    )


def _spread(scene: Scene, size: Num, width: int) -> Num | None:
    """A reduction over the shards, and over the replicas of each where there are several."""
    q = scene.q
    inside = collective(scene, reduce_scatter_seconds, size, q.shards)
    if scene.plan.shard_size == 0 or inside is None:
        return inside
    replicas = maximum(q.data_parallel // q.shards, 1)
    between = all_reduce_seconds(
        scene.facts.gpu,
        size_bytes=size / q.shards,
        ranks=replicas,
        gpus_per_node=maximum(scene.plan.gpus_per_node // q.shards, 1),
    )
    return None if between is None else inside + between


def _replicas(
    scene: Scene, row: Work, compute_seconds: Num, idle_seconds: Num
) -> Iterator[TimeTerm]:
    """Gradients of whole models: once an update, under ZeRO-2 in every micro-batch."""
    q, role, plan = scene.q, row.role, scene.plan
    if sharding_of(plan).alone or scene.gathers or not role.trained:
        return
    size = role.trainable * (q.gradient_bytes if sharding_of(plan).ddp else q.reduce_bytes)
    how = all_reduce_seconds if sharding_of(plan).ddp else reduce_scatter_seconds
    seconds = collective(scene, how, size, q.data_parallel)
    if seconds is None:
        yield UNKNOWN
    elif not sharding_of(plan).ddp:
        times = row.rounds if scene.zero_stage == 2 else q.updates_per_step
        yield BARE.term(role.name, label="gradients reduced", times=times, seconds_each=seconds)
    else:
        bucket = minimum(size, BUCKET_BYTES)
        each = collective(scene, how, bucket, q.data_parallel)
        assert each is not None
        yield LATE_REDUCTION.term(
            role.name,
            updates=q.updates_per_step,
            reduce_seconds=each * ceil_div(size, bucket),
            backward_seconds=compute_seconds / row.rounds,
            slowdown=slowdown(scene.facts.gpu),
            idle_seconds=idle_seconds / row.rounds,
            bucket_seconds=each,
        )


def _copied_layer(scene: Scene, row: Work) -> Num | None:
    """Seconds of host copies of one layer in one round: its input, weights that stay there.

    ZeRO-3 fetches gradients to add to on a stream of its own, beside the layers.
    """
    q, arch = scene.q, row.role.arch
    size: Num = 0
    if scene.plan.activation_offload and row.run != "score":
        size = row.tokens / row.rounds * arch.hidden * q.compute_bytes
    if scene.plan.offload == "all" or _waits(scene, row) == "host, streamed":
        own = row.role.parameters * row.role.weight_bytes / scene.shards_of("weights")
        size = size + own / arch.layers
    if row.run == "backward" and scene.zero_stage == 3:
        size = size + fetched_bytes(scene, row) / row.rounds / arch.layers
    return _copy(scene, size)


def _weights_moved(scene: Scene, row: Work) -> Iterator[TimeTerm]:
    """Weights that wait in host RAM are fetched for a phase and put away after it."""
    if _waits(scene, row) != "host":
        return
    own = row.role.parameters * row.role.weight_bytes / scene.shards_of("weights")
    seconds = _copy(scene, own)
    if seconds is None:
        yield UNKNOWN
        return
    yield BARE.term(
        row.role.name, label="weights to the GPU and back", times=2, seconds_each=seconds
    )


def _waits(scene: Scene, row: Work) -> str:
    model = scene.setup.model(row.role.name)
    return "gpu" if model is None else model.waits


def _copy(scene: Scene, size: Num) -> Num | None:
    return 0.0 if is_zero(size) else host_copy_seconds(scene.facts.gpu, size_bytes=size)


def _together(scene: Scene, collectives: Num, copies: Num) -> Num:
    """Side by side where cards have a link of their own, one after the other over the slot."""
    if is_zero(copies):
        return collectives
    linked = scene.facts.gpu.interconnect_bytes_per_second is not None
    return maximum(collectives, copies) if linked else collectives + copies


def collective(
    scene: Scene, seconds: Callable[..., Num | None], size_bytes: Num, ranks: Num
) -> Num | None:
    """Seconds of a collective over the plan's nodes."""
    nodes = scene.plan.gpus_per_node
    return seconds(scene.facts.gpu, size_bytes=size_bytes, ranks=ranks, gpus_per_node=nodes)


def files_read(scene: Scene, row: Work) -> TimeTerm:
    """What every process of a node reads for a pass, from the disk that they share."""
    return DISK_READ.term(
        row.role.name,
        label="cached reference read from the disk",
        ranks_per_node=scene.ranks_per_node,
        size_bytes=row.host_bytes,
        disk_bytes_per_second=_disk(scene),
    )


def files_written(scene: Scene, row: Work) -> TimeTerm:
    """What a node writes of a checkpoint, which every GPU waits for."""
    return DISK_WRITE.term(
        row.role.name,
        size_bytes=row.host_bytes,
        disk_bytes_per_second=_disk(scene),
    )


def _disk(scene: Scene) -> Num:
    return scene.plan.disk_bytes_per_second or typical("disk-bytes-per-second")
