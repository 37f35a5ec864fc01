"""Seconds of each phase of one step: a roofline with published efficiencies.

Compute, collectives and host copies of one pass overlap as far as FSDP overlaps them:
the longer one counts. Lengths are the plan's caps, so real batches are faster. A phase
whose time nobody can derive from the plan (loading, saving, validation) is None.
"""

from __future__ import annotations

from collections.abc import Callable

from planner.catalog.efficiencies import Key, typical
from planner.formulas.communication import (
    all_gather_seconds,
    all_reduce_seconds,
    exposed_seconds,
    host_copy_seconds,
    reduce_scatter_seconds,
)
from planner.formulas.compute import compute_seconds, optimizer_seconds
from planner.formulas.decoding import decode_seconds
from planner.numeric import Num, ceil_div, maximum
from planner.phases.baseline import adapter_bytes
from planner.phases.phase import Decoding, PhasePlan, Work
from planner.phases.role import Role
from planner.phases.scene import Scene, once


def phase_seconds(scene: Scene, phase: PhasePlan) -> Num | None:
    """Seconds a phase takes in one step; None when that is unknown."""
    if not phase.work:
        return None
    passes: list[list[Work]] = []
    for row in phase.work:
        # A row beside another shares its pass.
        together = passes.pop() if row.beside else []
        passes.append([*together, row])
    return _sum(*(_together(scene, rows) for rows in passes))


def _together(scene: Scene, rows: list[Work]) -> Num | None:
    """Compute of one pass, and what of its traffic it does not hide."""
    compute = _sum(*(_compute(scene, row) for row in rows))
    traffic = _sum(*(_traffic(scene, row) for row in rows))
    if compute is None or traffic is None:
        return None
    return compute + exposed_seconds(communication_seconds=traffic, compute_seconds=compute)


def _compute(scene: Scene, row: Work) -> Num | None:
    if isinstance(row, Decoding):
        return _decode(scene, row)
    if row.run == "optimizer":
        return _optimizer(scene, row)
    if row.run == "send":
        return _weight_sync(scene)
    gpu = scene.facts.gpu
    key: Key = "forward-compute" if row.run == "score" else "training-compute"
    found = compute_seconds(gpu, flops=row.flops, dtype=scene.plan.dtype, key=key)
    if found is None or isinstance(row.layer_runs, int) and not row.layer_runs:
        return found
    return maximum(1.0 * found, typical("hf-step-seconds-per-layer", gpu) * row.layer_runs)


def _decode(scene: Scene, row: Decoding) -> Num | None:
    each = decode_seconds(
        row.role.arch,
        scene.facts.gpu,
        sequences=row.sequences,
        prompt_tokens=row.prompt_tokens,
        response_tokens=row.response_tokens,
        dtype=scene.plan.dtype,
        tensor_parallel=row.tensor_parallel,
        engine=row.engine,
        max_num_seqs=row.max_num_seqs,
        kv_value_bytes=row.kv_value_bytes,
        concurrent=row.concurrent,
    )
    return None if each is None else each * row.rounds


def _traffic(scene: Scene, row: Work) -> Num | None:
    """Seconds of collectives and host copies that a pass needs, whatever hides them."""
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


def _optimizer(scene: Scene, row: Work) -> Num | None:
    plan, q, role = scene.plan, scene.q, row.role
    state_bytes = 3 * (adapter_bytes(scene) if role.adapters else q.master_bytes)
    own = ceil_div(scene.sharded_trainable(role), scene.shards_of("optimizer"))
    touched = own * (2 * state_bytes + q.gradient_bytes) * row.rounds
    step = optimizer_seconds(scene.facts.gpu, bytes_touched=touched)
    if plan.offload == "none":
        return step
    moved = 2 * own * state_bytes
    return _sum(step, host_copy_seconds(scene.facts.gpu, size_bytes=moved))


def _weight_sync(scene: Scene) -> Num | None:
    size = scene.policy.parameters * scene.q.compute_bytes
    if scene.plan.sharding == "none" and scene.plan.rollout != "vllm-separate":
        return optimizer_seconds(scene.facts.gpu, bytes_touched=2 * size)
    return _collective(scene, all_gather_seconds, size, scene.plan.gpus)


def _gather(scene: Scene, role: Role, passes: Num) -> Num | None:
    """Gathering every weight once per pass; nothing when weights are not sharded."""
    if not (scene.fsdp or scene.zero_stage == 3):
        return 0.0
    return _times(_gather_once(scene, role), passes)


@once
def _gather_once(scene: Scene, role: Role) -> Num | None:
    size = (role.parameters + role.adapters) * scene.q.compute_bytes
    return _collective(scene, all_gather_seconds, size, scene.q.shards)


def _reduce(scene: Scene, role: Role, passes: Num) -> Num | None:
    """Spreading gradients: every pass under FSDP and ZeRO-2/3, once per update otherwise."""
    q = scene.q
    if scene.plan.sharding == "none":
        return 0.0
    size = role.trainable * (q.reduce_bytes if scene.fsdp else q.gradient_bytes)
    if scene.fsdp or scene.zero_stage >= 2:
        return _times(_collective(scene, reduce_scatter_seconds, size, q.shards), passes)
    reduced = _collective(scene, all_reduce_seconds, size, q.training_gpus)
    return _times(reduced, q.updates_per_step)


def _collective(
    scene: Scene, seconds: Callable[..., Num | None], size: Num, ranks: Num
) -> Num | None:
    """Seconds of a collective of ``size`` bytes."""
    nodes = scene.plan.gpus_per_node
    return seconds(scene.facts.gpu, size_bytes=size, ranks=ranks, gpus_per_node=nodes)


def _times(seconds: Num | None, times: Num) -> Num | None:
    return None if seconds is None else seconds * times


def _sum(*seconds: Num | None) -> Num | None:
    known = [value for value in seconds if value is not None]
    return sum(known) if len(known) == len(seconds) else None
