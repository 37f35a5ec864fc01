"""The rollout engine's share of a card: awake, asleep, or on GPUs of its own.

vLLM takes ``gpu_memory_utilization`` of the card, whatever else is on it; what is not
weights, working set or graphs becomes KV cache.
"""

from __future__ import annotations

from typing import Any

from planner.catalog import device_constants
from planner.footprint import Term
from planner.formulas import generation, sharding, state
from planner.numeric import Num, ceil_div, maximum
from planner.phases.scene import Moment, Scene

ROLE = "rollout engine"


def held(scene: Scene, moment: Moment) -> tuple[Term, ...]:
    """What a colocated engine holds of the trainer's card at a moment of the step."""
    plan = scene.plan
    if plan.rollout != "vllm-colocated":
        return ()
    if plan.vllm_sleep_level == 0 or moment == "rollout":
        return awake(scene)
    asleep = (
        generation.ENGINE_ASLEEP(ROLE, residue_bytes=device_constants.ENGINE_RESIDUE.high_bytes),
    )
    if moment == "weight sync":
        return (*asleep, _weights(scene))
    if plan.vllm_sleep_level == 1:
        return (*asleep, _weights_on_host(scene))
    return asleep


def awake(scene: Scene) -> tuple[Term, ...]:
    """The engine's whole share: weights, working set, graphs and KV cache pool."""
    parts = (_weights(scene), _working_set(scene), _graphs(scene))
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


def share_bytes(scene: Scene) -> Num:
    """Bytes that ``gpu_memory_utilization`` allows the engine."""
    return int(scene.plan.gpu_memory_utilization * scene.facts.budget_bytes)


def shortfall_bytes(scene: Scene) -> Num:
    """Bytes by which the share is too small for weights, working set and one sequence."""
    if not scene.plan.rollout.startswith("vllm"):
        return 0
    needed = _weights(scene).bytes + _working_set(scene).bytes + _graphs(scene).bytes
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


def kv_value_bytes(plan: Any) -> int:
    """Bytes of one value in the engine's KV cache; the engine computes in half precision."""
    return 1 if plan.kv_cache_dtype == "fp8" else (4 if plan.dtype == "fp32" else 2)


def _engine_bytes(scene: Scene) -> int:
    return scene.q.compute_bytes


def _weights(scene: Scene) -> Term:
    return generation.ENGINE_WEIGHTS(
        ROLE,
        parameters=scene.policy.parameters,
        tensor_parallel=scene.plan.rollout_tensor_parallel,
        value_bytes=_engine_bytes(scene),
    )


def _weights_on_host(scene: Scene) -> Term:
    return state.LOCAL_RANKS_OFFLOAD(
        ROLE,
        label="engine weights, asleep in host RAM",
        host=True,
        ranks_per_node=scene.ranks_per_node,
        rank_bytes=_weights(scene).bytes,
    )


def _working_set(scene: Scene) -> Term:
    arch = scene.policy.arch
    sizes: dict[str, Any] = {
        "max_num_batched_tokens": scene.plan.max_num_batched_tokens,
        "hidden": arch.hidden,
        "tensor_parallel": scene.plan.rollout_tensor_parallel,
        "value_bytes": _engine_bytes(scene),
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


def _graphs(scene: Scene) -> Term:
    graphs = 0 if scene.plan.enforce_eager else device_constants.VLLM_CUDA_GRAPHS.high_bytes
    return generation.ENGINE_GRAPHS(ROLE, graph_bytes=graphs)


def _one_sequence_bytes(scene: Scene) -> Num:
    """KV cache of the longest sequence the engine must be able to hold, per GPU."""
    plan, arch = scene.plan, scene.policy.arch
    longest = plan.prompt_tokens + maximum(plan.response_tokens, plan.validation_response_tokens)
    heads = max(arch.kv_heads // plan.rollout_tensor_parallel, 1)
    return 2 * arch.cache_layers * heads * arch.head_dim * kv_value_bytes(plan) * longest


def sync_buffers(scene: Scene) -> tuple[Term, ...]:
    """Buffers while updated weights travel to the engine."""
    policy = scene.policy
    bucket_bytes = scene.framework.sync_bucket_bytes
    bucket = (
        generation.SYNC_BUCKET("policy", bucket_bytes=bucket_bytes)
        if bucket_bytes
        else sharding.LARGEST_TENSOR(
            "policy", largest_weight=policy.largest_weight, value_bytes=policy.weight_bytes
        )
    )
    return (bucket,)
