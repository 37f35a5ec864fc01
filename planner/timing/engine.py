"""Seconds of a rollout, and of the weights that a generator is sent."""

from __future__ import annotations

from planner.footprint import TimeTerm
from planner.formulas.communication import GATHERED_WEIGHTS, all_gather_seconds
from planner.formulas.compute import OPTIMIZER_SECONDS, memory_rates
from planner.formulas.decoding import DECODING, decode_seconds
from planner.phases.phase import Decoding
from planner.phases.scene import Scene
from planner.timing.traffic import collective


def decoding(scene: Scene, row: Decoding) -> tuple[TimeTerm, ...] | None:
    """Every response of a step, token by token; None when a peak of the card is unknown."""
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
    if each is None:
        return None
    return (DECODING.term(row.role.name, rounds=row.rounds, round_seconds=each),)


def weight_sync(scene: Scene) -> tuple[TimeTerm, ...] | None:
    """The policy's weights to its generator; None when nothing says how fast they travel."""
    role = scene.policy
    size = role.parameters * scene.q.compute_bytes
    if scene.plan.sharding == "none" and scene.plan.rollout != "vllm-separate":
        rates = memory_rates(scene.facts.gpu)
        if rates is None:
            return None
        copied = OPTIMIZER_SECONDS.term(
            role.name, label="weights copied", bytes_touched=2 * size, **rates
        )
        return (copied,)
    seconds = collective(scene, all_gather_seconds, size, scene.plan.gpus)
    return None if seconds is None else (GATHERED_WEIGHTS.term(role.name, gather_seconds=seconds),)
