"""Seconds that a model's passes and updates compute on one GPU."""

from __future__ import annotations

from planner.catalog.efficiencies import Key, typical
from planner.footprint import TimeTerm
from planner.formulas.communication import HOST_COPY, host_copy_rates
from planner.formulas.compute import (
    COMPUTE_SECONDS,
    LAUNCH_SECONDS,
    OPTIMIZER_SECONDS,
    compute_rates,
    memory_rates,
)
from planner.numeric import ceil_div
from planner.phases.baseline import adapter_bytes
from planner.phases.phase import Work
from planner.phases.scene import Scene


def passes(scene: Scene, row: Work) -> tuple[TimeTerm, ...] | None:
    """A forward or a backward of a whole step; None when the card's peak is unknown."""
    gpu, role = scene.facts.gpu, row.role
    key: Key = "forward-compute" if row.run == "score" else "training-compute"
    rates = compute_rates(gpu, dtype=scene.plan.dtype, key=key)
    if rates is None:
        return None
    computed = COMPUTE_SECONDS.term(role.name, flops=row.flops, **rates)
    if isinstance(row.layer_runs, int) and not row.layer_runs:
        return (computed,)
    waited = LAUNCH_SECONDS.term(
        role.name,
        layer_runs=row.layer_runs,
        launch_seconds=typical("hf-step-seconds-per-layer", gpu),
        compute_seconds=computed.seconds,
    )
    return computed, waited


def optimizer(scene: Scene, row: Work) -> tuple[TimeTerm, ...] | None:
    """The updates of a step; None when the card's bandwidth, or its slot, is unknown."""
    plan, q, role, gpu = scene.plan, scene.q, row.role, scene.facts.gpu
    state_bytes = 3 * (adapter_bytes(scene) if role.adapters else q.master_bytes)
    own = ceil_div(scene.sharded_trainable(role), scene.shards_of("optimizer"))
    touched = own * (2 * state_bytes + q.gradient_bytes) * row.rounds
    rates = memory_rates(gpu)
    if rates is None:
        return None
    step = OPTIMIZER_SECONDS.term(role.name, bytes_touched=touched, **rates)
    if plan.offload == "none":
        return (step,)
    slot = host_copy_rates(gpu)
    if slot is None:
        return None
    return step, HOST_COPY.term(role.name, size_bytes=2 * own * state_bytes, **slot)
