"""Seconds of each phase of one step: a roofline with published efficiencies.

Compute, collectives and host copies of one pass overlap as far as FSDP overlaps them:
the longer one counts. Lengths are the plan's caps, so real batches are faster. A phase
whose time nobody can derive from the plan (loading, saving, validation) is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner import references
from planner.formulas.communication import (
    all_gather_seconds,
    all_reduce_seconds,
    exposed_seconds,
    host_copy_seconds,
    reduce_scatter_seconds,
)
from planner.formulas.compute import (
    backward_seconds,
    compute_seconds,
    forward_seconds,
    head_flops,
    optimizer_seconds,
)
from planner.formulas.decoding import decode_seconds
from planner.methods.grade import seconds
from planner.numeric import Num, ceil_div, maximum
from planner.phases import engine
from planner.phases.resident import adapter_bytes
from planner.phases.role import Role
from planner.phases.scene import Scene


def phase_seconds(scene: Scene, name: str) -> Num | None:
    """Seconds a phase takes in one step; None when that is unknown."""
    rule = (UNROLLED if scene.plan.method == "grade" else RULES).get(name)
    return None if rule is None else rule(scene)


def _rollout(scene: Scene) -> Num | None:
    plan, q = scene.plan, scene.q
    hf = plan.rollout == "hf"
    return decode_seconds(
        scene.policy.arch,
        scene.facts.gpu,
        sequences=q.sequences_per_gpu_step if hf else engine.sequences_each(scene),
        prompt_tokens=plan.prompt_tokens,
        response_tokens=plan.response_tokens,
        dtype=plan.dtype,
        tensor_parallel=1 if hf else plan.rollout_tensor_parallel,
        engine="hf" if hf else "vllm",
        max_num_seqs=q.sequences_per_gpu_step if hf else plan.max_num_seqs,
        kv_value_bytes=q.compute_bytes if hf else engine.kv_value_bytes(plan),
        concurrent=None if hf else engine.concurrent_sequences(scene),
    )


def _inference(scene: Scene, role: Role, *, head: bool = True) -> Num | None:
    """All sequences of the step once through a role, in forwards without gradient."""
    q = scene.q
    passes = ceil_div(q.sequences_per_gpu_step, q.logprob_sequences)
    compute = forward_seconds(
        role.arch,
        scene.facts.gpu,
        tokens=q.sequences_per_gpu_step * q.row_tokens,
        row_tokens=q.row_tokens,
        dtype=scene.plan.dtype,
        head=head and not role.value_head,
    )
    return _overlapped(compute, _gather(scene, role, passes))


def _forward(scene: Scene, role: Role) -> Num | None:
    q = scene.q
    compute = forward_seconds(
        role.arch,
        scene.facts.gpu,
        tokens=q.sequences_per_gpu_step * q.row_tokens,
        row_tokens=q.row_tokens,
        dtype=scene.plan.dtype,
        head=not role.value_head,
        training=True,
    )
    passes = q.micro_batches * q.updates_per_step
    if role is scene.policy and references.in_loss(scene.plan):
        compute = _sum(compute, _reference_in_loss(scene))
    traffic = _gather(scene, role, passes)
    if references.own_head(scene.plan) and role is scene.policy and scene.reference:
        traffic = _sum(traffic, _gather(scene, scene.reference, passes))
    return _overlapped(compute, traffic)


def _reference_in_loss(scene: Scene) -> Num | None:
    """What the policy's forward computes besides: the reference's layers and head, or its head.

    The layers that run twice are gathered once.
    """
    arch, gpu, q = scene.policy.arch, scene.facts.gpu, scene.q
    dtype, sequences = scene.plan.dtype, q.sequences_per_gpu_step
    if references.dual(scene.plan):
        return forward_seconds(
            arch, gpu, tokens=sequences * q.row_tokens, row_tokens=q.row_tokens, dtype=dtype
        )
    flops = head_flops(arch, tokens=sequences * scene.plan.response_tokens)
    return compute_seconds(gpu, flops=flops, dtype=dtype, key="forward-compute")


def _backward(scene: Scene, role: Role) -> Num | None:
    plan, q = scene.plan, scene.q
    compute = backward_seconds(
        role.arch,
        scene.facts.gpu,
        tokens=q.sequences_per_gpu_step * q.row_tokens,
        row_tokens=q.row_tokens,
        dtype=plan.dtype,
        recompute=plan.gradient_checkpointing == "full",
        weights_train=not role.adapters,
        head=not role.value_head,
    )
    passes = q.micro_batches * q.updates_per_step
    traffic = _sum(
        _gather(scene, role, passes if plan.reshard_after_forward else 0 * passes),
        _reduce(scene, role, passes),
    )
    if plan.activation_offload:
        inputs = role.arch.layers * role.arch.hidden * q.compute_bytes
        copied = 2 * inputs * q.sequences_per_gpu_step * q.row_tokens
        traffic = _longer(traffic, host_copy_seconds(scene.facts.gpu, size_bytes=copied))
    return _overlapped(compute, traffic)


def _optimizer(scene: Scene, role: Role) -> Num | None:
    plan, q = scene.plan, scene.q
    state_bytes = 3 * (adapter_bytes(scene) if role.adapters else q.master_bytes)
    own = ceil_div(scene.sharded_trainable(role), scene.shards_of("optimizer"))
    touched = own * (2 * state_bytes + q.gradient_bytes) * q.updates_per_step
    step = optimizer_seconds(scene.facts.gpu, bytes_touched=touched)
    if plan.offload == "none":
        return step
    moved = 2 * own * state_bytes
    return _sum(step, host_copy_seconds(scene.facts.gpu, size_bytes=moved))


def _weight_sync(scene: Scene) -> Num | None:
    if scene.plan.sharding == "none" and scene.plan.rollout != "vllm-separate":
        return optimizer_seconds(
            scene.facts.gpu, bytes_touched=2 * scene.policy.parameters * scene.q.compute_bytes
        )
    return all_gather_seconds(
        scene.facts.gpu,
        size_bytes=scene.policy.parameters * scene.q.compute_bytes,
        ranks=scene.plan.gpus,
        gpus_per_node=scene.plan.gpus_per_node,
    )


def _gather(scene: Scene, role: Role, passes: Num) -> Num | None:
    """Gathering every weight once per pass; nothing when weights are not sharded."""
    if not (scene.fsdp or scene.zero_stage == 3):
        return 0.0
    once = all_gather_seconds(
        scene.facts.gpu,
        size_bytes=(role.parameters + role.adapters) * scene.q.compute_bytes,
        ranks=scene.q.shards,
        gpus_per_node=scene.plan.gpus_per_node,
    )
    return None if once is None else once * passes


def _reduce(scene: Scene, role: Role, passes: Num) -> Num | None:
    """Spreading gradients: every pass under FSDP and ZeRO-2/3, once per update otherwise."""
    plan, q = scene.plan, scene.q
    if plan.sharding == "none":
        return 0.0
    size = role.trainable * (q.reduce_bytes if scene.fsdp else q.gradient_bytes)
    if scene.fsdp or scene.zero_stage >= 2:
        once = reduce_scatter_seconds(
            scene.facts.gpu, size_bytes=size, ranks=q.shards, gpus_per_node=plan.gpus_per_node
        )
        return None if once is None else once * passes
    once = all_reduce_seconds(
        scene.facts.gpu,
        size_bytes=size,
        ranks=q.training_gpus,
        gpus_per_node=plan.gpus_per_node,
    )
    return None if once is None else once * q.updates_per_step


def _sum(*seconds: Num | None) -> Num | None:
    known = [value for value in seconds if value is not None]
    return None if len(known) < len(seconds) else sum(known)


def _overlapped(compute: Num | None, traffic: Num | None) -> Num | None:
    """Compute, and what of the traffic it does not hide."""
    if compute is None or traffic is None:
        return None
    return compute + exposed_seconds(communication_seconds=traffic, compute_seconds=compute)


def _longer(first: Num | None, second: Num | None) -> Num | None:
    return None if first is None or second is None else maximum(first, second)


def _critic_update(scene: Scene) -> Num | None:
    critic = scene.critic
    if critic is None:
        return None
    return _sum(_forward(scene, critic), _backward(scene, critic), _optimizer(scene, critic))


def _of(role_name: str) -> Callable[[Scene], Num | None]:
    def seconds(scene: Scene) -> Num | None:
        role: Role | None = getattr(scene, role_name)
        return None if role is None else _inference(scene, role)

    return seconds


RULES: Mapping[str, Callable[[Scene], Num | None]] = {
    "rollout": _rollout,
    "old log-probs": _of("policy"),
    "reference log-probs": lambda scene: _inference(scene, scene.reference or scene.policy),
    "values": _of("critic"),
    "reward": _of("reward"),
    "critic update": _critic_update,
    "policy forward": lambda scene: _forward(scene, scene.policy),
    "policy backward": lambda scene: _backward(scene, scene.policy),
    "optimizer step": lambda scene: _optimizer(scene, scene.policy),
    "weight sync": _weight_sync,
}
"""How long each phase takes; phases that are not listed have no known time."""

UNROLLED: Mapping[str, Callable[[Scene], Num | None]] = {
    "policy forward": seconds.forward,
    "policy backward": seconds.backward,
    "optimizer step": RULES["optimizer step"],
}
"""The same for GRADE, whose forward generates."""
