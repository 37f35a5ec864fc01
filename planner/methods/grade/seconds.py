"""Seconds of GRADE's forward and backward: every generated token is a forward of the whole row.

FLOPs are summed over the unrolled steps and divided by what training reaches of the card's
peak; below that the host's launches set the time, since each step launches every kernel anew.
"""

from __future__ import annotations

from planner.catalog.architecture import Architecture
from planner.catalog.efficiencies import typical
from planner.formulas.compute import (
    backward_flops,
    compute_seconds,
    forward_flops,
    forward_seconds,
    head_flops,
)
from planner.formulas.decoding import decode_seconds
from planner.numeric import Num, maximum
from planner.phases.scene import Scene


def forward(scene: Scene) -> Num | None:
    """Seconds of generation, reference and reward over all micro-batches of a step."""
    steps = scene.plan.response_tokens
    policy = policy_flops(scene)
    launches = scene.policy.arch.layers * steps
    own = _slower(scene, policy, launches)
    parts = [own, _reference(scene), _reward(scene)]
    return None if any(part is None for part in parts) else sum(parts)  # type: ignore[arg-type]


def backward(scene: Scene) -> Num | None:
    """Seconds of the backward, with what checkpoints of layers and of steps run again."""
    plan, role = scene.plan, scene.policy
    tokens, row = _positions(scene)
    again = (plan.gradient_checkpointing == "full") + bool(plan.grade_step_checkpointing)
    flops = backward_flops(
        role.arch,
        tokens=tokens,
        row_tokens=row,
        recompute=False,
        weights_train=not role.adapters,
        head=False,
    )
    flops = flops + again * policy_flops(scene) + (1 + (not role.adapters)) * _head(scene)
    own = _slower(scene, flops, (2 + again) * role.arch.layers * plan.response_tokens)
    through = compute_seconds(
        scene.facts.gpu,
        flops=backward_flops(
            _judge(scene),
            tokens=1.0 * scene.q.sequences_per_gpu_step * plan.response_tokens,
            row_tokens=plan.response_tokens,
            recompute=False,
            weights_train=False,
            head=False,
        ),
        dtype=plan.dtype,
        key="training-compute",
    )
    return None if own is None or through is None else own + through


def _slower(scene: Scene, flops: Num, layer_runs: Num) -> Num | None:
    """Seconds of FLOPs, or of launching the kernels of ``layer_runs`` layers if that is longer."""
    gpu = scene.facts.gpu
    seconds = compute_seconds(gpu, flops=flops, dtype=scene.plan.dtype, key="training-compute")
    if seconds is None:
        return None
    each = typical("hf-step-seconds-per-layer", gpu)
    passes = scene.q.micro_batches * scene.q.updates_per_step
    return maximum(1.0 * seconds, each * layer_runs * passes)


def _positions(scene: Scene) -> tuple[Num, Num]:
    """Token positions of all steps and rows, and the row length that gives their pairs.

    Attention over rows of that length has as many pairs as over the growing rows: the sum of
    the squared lengths over the sum of the lengths.
    """
    first, steps = 1.0 * scene.plan.prompt_tokens, 1.0 * scene.plan.response_tokens
    lengths = steps * first + steps * (steps - 1) / 2
    squares = steps * first**2 + first * steps * (steps - 1)
    squares = squares + (steps - 1) * steps * (2 * steps - 1) / 6
    return scene.q.sequences_per_gpu_step * lengths, squares / lengths


def policy_flops(scene: Scene) -> Num:
    """All unrolled forwards; the head meets the last position of each step only."""
    arch = scene.policy.arch
    tokens, row = _positions(scene)
    return forward_flops(arch, tokens=tokens, row_tokens=row, head=False) + _head(scene)


def _head(scene: Scene) -> Num:
    tokens = scene.q.sequences_per_gpu_step * scene.plan.response_tokens
    return head_flops(scene.policy.arch, tokens=tokens)


def _reference(scene: Scene) -> Num | None:
    plan, q = scene.plan, scene.q
    if plan.grade_kl == "none":
        return 0.0
    arch = (scene.reference or scene.policy).arch
    if not plan.grade_reference_cache:
        return _slower(scene, policy_flops(scene), arch.layers * plan.response_tokens)
    each = decode_seconds(
        arch,
        scene.facts.gpu,
        sequences=q.micro_rows,
        prompt_tokens=plan.prompt_tokens,
        response_tokens=plan.response_tokens,
        dtype=plan.dtype,
        tensor_parallel=1,
        engine="hf",
        max_num_seqs=q.micro_rows,
        kv_value_bytes=q.compute_bytes,
    )
    return None if each is None else each * q.micro_batches * q.updates_per_step


def _reward(scene: Scene) -> Num | None:
    return forward_seconds(
        _judge(scene),
        scene.facts.gpu,
        tokens=scene.q.sequences_per_gpu_step * scene.plan.response_tokens,
        row_tokens=scene.plan.response_tokens,
        dtype=scene.plan.dtype,
        head=False,
        training=True,
    )


def _judge(scene: Scene) -> Architecture:
    if scene.reward is None:
        raise ValueError("reward: GRADE needs a model that gradients flow through; set it to model")
    return scene.reward.arch
