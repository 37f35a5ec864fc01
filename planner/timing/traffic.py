"""Seconds of collectives and host copies that a pass needs, and what of them it does not hide."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from planner.footprint import TimeTerm
from planner.formulas.communication import (
    EXPOSED,
    all_gather_seconds,
    all_reduce_seconds,
    host_copy_seconds,
    reduce_scatter_seconds,
)
from planner.numeric import Num, maximum
from planner.phases.phase import Work
from planner.phases.role import Role
from planner.phases.scene import Scene, once


def exposed(
    scene: Scene, rows: Iterable[Work], compute_seconds: Num
) -> tuple[TimeTerm, ...] | None:
    """Traffic of a pass that outlasts what it computes; None when nothing says how fast it is."""
    rows = list(rows)
    seconds = _sum(*(_traffic(scene, row) for row in rows))
    if seconds is None:
        return None
    if isinstance(seconds, float) and not seconds:
        return ()
    role = rows[0].role.name
    waited = EXPOSED.term(role, communication_seconds=seconds, compute_seconds=compute_seconds)
    return (waited,)


def _traffic(scene: Scene, row: Work) -> Num | None:
    """Seconds of collectives and host copies that a row needs, whatever hides them."""
    if row.run in ("score", "forward"):
        gathers = _gather(scene, row.role, row.rounds) if row.gathered else 0.0
        if isinstance(row.host_bytes, int) and not row.host_bytes:
            return gathers
        return _sum(gathers, host_copy_seconds(scene.facts.gpu, size_bytes=row.host_bytes))
    if row.run != "backward":
        return 0.0
    plan, q, role = scene.plan, scene.q, row.role
    traffic = _sum(
        _gather(scene, role, row.rounds if plan.reshard_after_forward else 0 * row.rounds),
        _reduce(scene, role, row.rounds),
    )
    if plan.activation_offload:
        inputs = role.arch.layers * role.arch.hidden * q.compute_bytes
        copies = host_copy_seconds(scene.facts.gpu, size_bytes=2 * inputs * row.tokens)
        known = traffic is not None and copies is not None
        return maximum(traffic, copies) if known else None
    return traffic


def _gather(scene: Scene, role: Role, passes: Num) -> Num | None:
    """Gathering every weight once per pass; nothing when weights are not sharded."""
    if not (scene.fsdp or scene.zero_stage == 3):
        return 0.0
    return _times(_gather_once(scene, role), passes)


@once
def _gather_once(scene: Scene, role: Role) -> Num | None:
    size = (role.parameters + role.adapters) * scene.q.compute_bytes
    return collective(scene, all_gather_seconds, size, scene.q.shards)


def _reduce(scene: Scene, role: Role, passes: Num) -> Num | None:
    """Spreading gradients: every pass under FSDP and ZeRO-2/3, once per update otherwise."""
    q = scene.q
    if scene.plan.sharding == "none":
        return 0.0
    size = role.trainable * (q.reduce_bytes if scene.fsdp else q.gradient_bytes)
    if scene.fsdp or scene.zero_stage >= 2:
        return _times(collective(scene, reduce_scatter_seconds, size, q.shards), passes)
    reduced = collective(scene, all_reduce_seconds, size, q.training_gpus)
    return _times(reduced, q.updates_per_step)


def collective(
    scene: Scene, seconds: Callable[..., Num | None], size_bytes: Num, ranks: Num
) -> Num | None:
    """Seconds of a collective over the plan's nodes."""
    nodes = scene.plan.gpus_per_node
    return seconds(scene.facts.gpu, size_bytes=size_bytes, ranks=ranks, gpus_per_node=nodes)


def _times(seconds: Num | None, times: Num) -> Num | None:
    return None if seconds is None else seconds * times


def _sum(*seconds: Num | None) -> Num | None:
    known = [value for value in seconds if value is not None]
    return sum(known) if len(known) == len(seconds) else None
