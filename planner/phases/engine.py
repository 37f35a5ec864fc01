"""The rollout engine's share of a card: awake, asleep, or on GPUs of its own.

vLLM takes ``gpu_memory_utilization`` of the card, whatever else is on it; what is not
weights, working set or graphs becomes KV cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.catalog import device_constants
from planner.footprint import Term
from planner.formulas import generation
from planner.numeric import Num, ceil_div, maximum
from planner.phases import host
from planner.phases.scene import Moment, Scene, once
from planner.plan import Plan

ROLE = "rollout engine"


def held(scene: Scene, moment: Moment) -> Iterator[Term]:
    """What a colocated engine holds of the trainer's card at a moment of the step."""
    plan = scene.plan
    if plan.rollout != "vllm-colocated":
        return
    if plan.vllm_sleep_level == 0 or moment == "rollout":
        yield from awake(scene)
        return
    residue = device_constants.ENGINE_RESIDUE.high_bytes
    yield generation.ENGINE_ASLEEP(ROLE, residue_bytes=residue)
    weights = _weights(scene)
    if moment == "weight sync":
        yield weights
    elif plan.vllm_sleep_level == 1:
        label = "engine weights, asleep in host RAM"
        yield host.offloaded(scene, ROLE, label, weights.bytes, scene.policy.layout)


@once
def awake(scene: Scene) -> tuple[Term, ...]:
    """The engine's whole share: weights, working set, graphs and KV cache pool."""
    parts = _parts(scene)
    weights, working, graphs = (part.bytes for part in parts)
    pool = generation.ENGINE_KV_POOL(
        ROLE,
        engine_bytes=share_bytes(scene),
        weights_bytes=weights,
        working_bytes=working,
        graph_bytes=graphs,
        one_sequence_bytes=_one_sequence_bytes(scene),
    )
    return (*parts, pool)


def _parts(scene: Scene) -> tuple[Term, Term, Term]:
    """What is not KV cache."""
    eager = scene.plan.enforce_eager
    captured = 0 if eager else device_constants.VLLM_CUDA_GRAPHS.high_bytes
    graphs = generation.ENGINE_GRAPHS(ROLE, graph_bytes=captured)
    return _weights(scene), _working_set(scene), graphs


def share_bytes(scene: Scene) -> Num:
    """Bytes that ``gpu_memory_utilization`` allows the engine."""
    return int(scene.plan.gpu_memory_utilization * scene.facts.budget_bytes)


def shortfall_bytes(scene: Scene) -> Num:
    """Bytes by which the share is too small for weights, working set and one sequence."""
    if not scene.plan.rollout.startswith("vllm"):
        return 0
    needed = sum(part.bytes for part in _parts(scene))
    return maximum(needed + _one_sequence_bytes(scene) - share_bytes(scene), 0)


def sequences_each(scene: Scene) -> Num:
    """Sequences of one step that each engine has to generate."""
    plan = scene.plan
    separate = plan.rollout == "vllm-separate"
    gpus = plan.rollout_gpus if separate else scene.q.training_gpus
    engines = maximum(gpus // plan.rollout_tensor_parallel, 1)
    return ceil_div(scene.q.sequences_per_step, engines)


def concurrent_sequences(scene: Scene) -> Num:
    """Whole-length sequences that the KV cache pool holds at once."""
    pool = awake(scene)[-1].bytes
    return maximum(pool // maximum(_one_sequence_bytes(scene), 1), 1)


def kv_value_bytes(plan: Plan) -> int:
    """Bytes of one value in the engine's KV cache; the engine computes in half precision."""
    return 1 if plan.kv_cache_dtype == "fp8" else (4 if plan.dtype == "fp32" else 2)


@once
def _weights(scene: Scene) -> Term:
    return generation.ENGINE_WEIGHTS(
        ROLE,
        parameters=scene.policy.parameters,
        tensor_parallel=scene.plan.rollout_tensor_parallel,
        value_bytes=scene.q.compute_bytes,
    )


def _working_set(scene: Scene) -> Term:
    arch = scene.policy.arch
    sizes: dict[str, Any] = {
        "max_num_batched_tokens": scene.plan.max_num_batched_tokens,
        "hidden": arch.hidden,
        "tensor_parallel": scene.plan.rollout_tensor_parallel,
        "value_bytes": scene.q.compute_bytes,
        "max_num_seqs": scene.plan.max_num_seqs,
        "vocab": arch.vocab,
    }
    if not arch.sparse_layers:
        return generation.ENGINE_WORKING_SET(ROLE, intermediate=arch.intermediate, **sizes)
    return generation.ENGINE_SPARSE_WORKING_SET(
        ROLE,
        experts_per_token=arch.experts_per_token,
        expert_intermediate=arch.expert_intermediate,
        **sizes,
    )


def _one_sequence_bytes(scene: Scene) -> Num:
    """KV cache of the longest sequence the engine must be able to hold, per GPU."""
    plan, arch = scene.plan, scene.policy.arch
    longest = plan.prompt_tokens + maximum(plan.response_tokens, plan.validation_response_tokens)
    heads = max(arch.kv_heads // plan.rollout_tensor_parallel, 1)
    return 2 * arch.cache_layers * heads * arch.head_dim * kv_value_bytes(plan) * longest


def sync_buffer(scene: Scene) -> Term:
    """The buffer in which updated weights travel to the engine."""
    bucket_bytes, policy = scene.framework.sync_bucket_bytes, scene.policy
    if bucket_bytes:
        return generation.SYNC_BUCKET("policy", bucket_bytes=bucket_bytes)
    return policy.largest_tensor()
