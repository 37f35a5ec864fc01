"""Seconds of a step's updates: on the card, on the host, and what travels for them."""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog.efficiencies import efficiencies, typical
from planner.formulas.communication import BARE, all_gather_seconds
from planner.formulas.compute import memory_rates
from planner.formulas.memory_bound import MEMORY_SECONDS
from planner.formulas.updates import (
    CLIPPED_BYTES,
    HOST_UPDATE,
    MOMENT_BYTES,
    ONE_PASS,
    UPDATE_BYTES,
    VALUES,
    ZERO_BYTES,
)
from planner.numeric import Num, ceil_div
from planner.phases.baseline import adapter_bytes
from planner.phases.phase import Work
from planner.phases.scene import Scene
from planner.term import TimeTerm
from planner.timing import launches
from planner.timing.on_host import by_host, copied, keeps_gradients
from planner.timing.terms import UNKNOWN
from planner.timing.traffic import collective

ON_HOST = ("optimizer", "all")
STATE_WAITS = ("optimizer-between-phases", "all-between-phases")


def optimizer(scene: Scene, row: Work) -> tuple[TimeTerm, ...] | None:
    """The updates of a step; None when the card's bandwidth, or its slot, is unknown."""
    found = tuple(_causes(scene, row))
    return found if all(found) else None


def _causes(scene: Scene, row: Work) -> Iterator[TimeTerm]:
    plan, q, role = scene.plan, scene.q, row.role
    own = ceil_div(scene.sharded_trainable(role), scene.shards_of("optimizer"))
    gradients = ceil_div(scene.sharded_trainable(role), scene.shards_of("gradients"))
    clipped = {"rounds": row.rounds, "elements": gradients, "gradient_bytes": q.gradient_bytes}
    away, clipping_seconds = keeps_gradients(scene), None
    if not scene.setup.steps_in_backward:  # where gradients are gone before a norm is known
        moved = CLIPPED_BYTES(**clipped)
        if away:
            yield by_host(row, CLIPPED_BYTES.name, moved)
        else:
            clips = _moved(scene, row, CLIPPED_BYTES.name, moved)
            yield clips
            clipping_seconds = clips.seconds if clips else None
    width = adapter_bytes(scene) if role.adapters else q.master_bytes
    zero = ZERO_BYTES if scene.zero_stage and plan.dtype != "fp32" else 0
    moved = UPDATE_BYTES(
        rounds=row.rounds,
        elements=own,
        values=VALUES[plan.optimizer],
        value_bytes=width if not zero else 4,
        gradient_bytes=q.gradient_bytes,
        other_bytes=MOMENT_BYTES.get(plan.optimizer, 0) + zero,
    )
    if plan.offload not in ON_HOST:
        yield _moved(scene, row, "optimizer step", moved)
        if clipping_seconds is not None and not scene.zero_stage:  # which updates flat buffers
            yield launches.of_update(scene, row, clipping_seconds)
    elif plan.offload == "all":  # weights travel with each gather
        yield copied(scene, row, "gradient offload", row.rounds * own * q.gradient_bytes)
    else:
        back = q.gradient_bytes + q.compute_bytes
        yield copied(scene, row, "gradients to the CPU, weights back", row.rounds * own * back)
    if away:
        yield by_host(row, HOST_UPDATE.name, moved, plan.optimizer in ONE_PASS)
    elif plan.offload in ON_HOST:
        yield HOST_UPDATE.term(
            role.name,
            factors=efficiencies()["host-update-seconds"].spread(scene.facts.gpu),
            rounds=row.rounds,
            ranks_per_node=scene.ranks_per_node,
            elements=own,
            seconds_per_element=typical("host-update-seconds", scene.facts.gpu),
        )
    if plan.offload in STATE_WAITS:
        state = 2 * width + 4 * (scene.zero_stage > 0)
        yield copied(scene, row, "optimizer state to the GPU and back", 2 * own * state)
    if scene.zero_stage in (1, 2):
        size = role.trainable * q.compute_bytes
        seconds = collective(scene, all_gather_seconds, size, q.shards)
        if seconds is None:
            yield UNKNOWN
            return
        yield BARE.term(
            role.name, label="updated weights gathered", times=row.rounds, seconds_each=seconds
        )


def _moved(scene: Scene, row: Work, label: str, size: Num) -> TimeTerm:
    rates = memory_rates(scene.facts.gpu)
    if rates is None:
        return UNKNOWN
    return MEMORY_SECONDS.term(row.role.name, label=label, bytes_moved=size, **rates)
