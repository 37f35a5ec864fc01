"""The rollout engine's share of a card: awake, asleep, or on GPUs of its own.

vLLM takes ``gpu_memory_utilization`` of the card, whatever else is on it; what is not
weights, working set or graphs becomes KV cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.catalog import device_constants
from planner.formulas import allocator, generation
from planner.formulas.parameters import quantizable_parameter_count
from planner.numeric import Num, ceil_div, maximum, minimum, whole_bytes
from planner.phases import host
from planner.phases.scene import Scene, once
from planner.plan import Plan
from planner.term import Term
from planner.values.framework import Sync
from planner.values.step_phases import Engine

ROLE = "rollout engine"

def held(scene: Scene, state: Engine) -> Iterator[Term]:
    """What a colocated engine holds of the trainer's card, awake or where it may sleep."""
    plan = scene.plan
    if plan.rollout != "vllm-colocated":
        return
    if apart(scene):
        yield process(scene)
    if plan.vllm_sleep_level == 0 or state == "awake":
        yield from awake(scene)
        return
    yield from (*_kept(scene), _buffers(scene))
    weights = _weights(scene)
    if state == "weights":
        yield weights
    elif plan.vllm_sleep_level == 1:
        label = "vLLM weights, asleep in host RAM"
        yield host.offloaded(scene, ROLE, label, weights.bytes, scene.served.layout)


def apart(scene: Scene) -> bool:
    """Whether the engine has processes of its own, beside the trainer's."""
    rollout = scene.plan.rollout
    return rollout == "vllm-separate" or rollout in scene.framework.helpers


@once
def process(scene: Scene) -> Term:
    """The context of a process that is the engine's alone."""
    return allocator.context(ROLE, scene.facts.gpu)


@once
def awake(scene: Scene) -> tuple[Term, ...]:
    """Weights, what sleep keeps, the working set of real requests, and the KV cache pool, last.

    The pool is what the share leaves beside the working set that the engine was profiled with,
    which it gives back. Buffers are made before vLLM begins to count, so the share leaves them out.
    """
    weights, kept = _weights(scene), _kept(scene)
    pool = generation.ENGINE_KV_POOL(
        ROLE,
        engine_bytes=share_bytes(scene),
        weights_bytes=weights.bytes,
        profiled_bytes=_working_set(scene, scene.plan.max_num_batched_tokens).bytes,
        kept_bytes=sum(part.bytes for part in kept),
        one_sequence_bytes=_one_sequence_bytes(scene),
    )
    working = _working_set(scene, _prompt_tokens_at_once(scene))
    return (weights, *kept, _buffers(scene), working, pool)


@once
def _kept(scene: Scene) -> tuple[Term, ...]:
    """What an engine keeps asleep of its share: neither in its pool of weights nor in its cache."""
    plan, arch = scene.plan, scene.facts.served
    spread = plan.rollout_tensor_parallel > 1
    libraries = (
        device_constants.ENGINE_COMMUNICATORS if spread else device_constants.ENGINE_LIBRARIES
    ).bounded
    most = libraries.high
    if _serves_adapters(scene):
        more = device_constants.adapter_bytes(scene.facts.gpu)
        most = max(most, libraries.centre + more)
    parts = [
        generation.ENGINE_LIBRARIES(
            ROLE,
            library_bytes=libraries.centre,
            between=(libraries.low, most),
        )
    ]
    if not plan.enforce_eager:
        parts.append(_graphs(scene, _serves_adapters(scene)))
    if arch.sparse_layers:
        parts.append(
            generation.ENGINE_EXPERT_WORKSPACE(
                ROLE,
                max_num_batched_tokens=plan.max_num_batched_tokens,
                experts_per_token=arch.experts_per_token,
                expert_intermediate=arch.expert_intermediate,
                hidden=arch.hidden,
                tensor_parallel=1 if experts_whole(plan) else plan.rollout_tensor_parallel,
                value_bytes=scene.q.compute_bytes,
            )
        )
    return tuple(parts)


@once
def _buffers(scene: Scene) -> Term:
    return generation.ENGINE_BUFFERS(
        ROLE,
        max_num_batched_tokens=scene.plan.max_num_batched_tokens,
        hidden=scene.facts.served.hidden,
        value_bytes=scene.q.compute_bytes,
    )


def _serves_adapters(scene: Scene) -> bool:
    return sync(scene)[0] == "adapters"


def _graphs(scene: Scene, adapters: bool) -> Term:
    plan = scene.plan
    piecewise = captured_sizes(minimum(2 * plan.max_num_seqs, MOST_CAPTURED))
    whole = captured_sizes(minimum(plan.max_num_seqs, MOST_CAPTURED))
    sizes = {
        "captures": piecewise + whole,
        "capture_bytes": device_constants.GRAPH_CAPTURE_BYTES,
        "layers": scene.facts.served.layers,
        "layer_bytes": device_constants.GRAPH_LAYER_BYTES,
        "times": device_constants.graph_times(adapters),
    }
    likely = generation.ENGINE_GRAPHS.value(**sizes)
    low, high = device_constants.GRAPH_BOUNDS[bool(scene.facts.served.sparse_layers)]
    between = (likely * low // 1000, likely * high // 1000)
    return generation.ENGINE_GRAPHS(ROLE, between=between, **sizes)


MOST_CAPTURED = 512
"""Tokens of the largest graph: vLLM 0.11 and later, ``max_cudagraph_capture_size``."""


def captured_sizes(most: Num) -> Num:
    """How many sizes vLLM captures up to ``most`` tokens: 1, 2, 4, by 8 to 248, by 16 from 256."""
    small = (most >= 1) * 1 + (most >= 2) * 1 + (most >= 4) * 1
    return small + minimum(most, 255) // 8 + (most >= 256) * ((maximum(most, 256) - 256) // 16 + 1)


def share_bytes(scene: Scene) -> Num:
    """Bytes that ``gpu_memory_utilization`` allows the engine."""
    return whole_bytes(scene.plan.gpu_memory_utilization * scene.facts.budget_bytes)


@once
def shortfall_bytes(scene: Scene) -> Num:
    """Bytes by which the share is too small for weights, working set and one sequence.

    Graphs with adapters are left out: what they take is one log's, which is little to refuse by.
    """
    if not scene.plan.rollout.startswith("vllm"):
        return 0
    return maximum(needed_bytes(scene) - share_bytes(scene), 0)


def needed_bytes(scene: Scene) -> Num:
    """Bytes that a share has to have at least: weights, working set, graphs and one sequence."""
    doubted: Num = 0
    if _serves_adapters(scene) and not scene.plan.enforce_eager:
        doubted = _graphs(scene, adapters=True).bytes - _graphs(scene, adapters=False).bytes
    profiled = _working_set(scene, scene.plan.max_num_batched_tokens)
    needed = sum(part.bytes for part in (_weights(scene), *_kept(scene), profiled))
    return needed - doubted + _one_sequence_bytes(scene)


def engines(scene: Scene) -> Num:
    """Engines, each over ``rollout_tensor_parallel`` GPUs."""
    plan = scene.plan
    separate = plan.rollout == "vllm-separate"
    gpus = plan.rollout_gpus if separate else scene.q.training_gpus
    return maximum(gpus // plan.rollout_tensor_parallel, 1)


def sequences_each(scene: Scene) -> Num:
    """Sequences of one step that each engine has to generate."""
    return ceil_div(scene.q.sequences_per_step, engines(scene))


def concurrent_sequences(scene: Scene) -> Num:
    """Whole-length sequences that the KV cache pool holds at once."""
    pool = awake(scene)[-1].bytes
    return maximum(pool // maximum(_one_sequence_bytes(scene), 1), 1)


def cache_tokens(scene: Scene) -> Num:
    """Tokens of any sequences that the KV cache pool holds at once."""
    return awake(scene)[-1].bytes // maximum(_token_bytes(scene), 1)


def experts_whole(plan: Plan) -> bool:
    """Whether each of an engine's GPUs has some experts whole, and not a slice of every one."""
    return plan.rollout_expert_parallel and plan.rollout_tensor_parallel > 1


def kv_value_bytes(plan: Plan) -> int:
    """Bytes of one value in the engine's KV cache; the engine computes in half precision."""
    return 1 if plan.kv_cache_dtype == "fp8" else (4 if plan.dtype == "fp32" else 2)


@once
def _weights(scene: Scene) -> Term:
    fp8 = scene.plan.rollout_quantization == "fp8"
    return generation.ENGINE_WEIGHTS(
        ROLE,
        parameters=scene.served.parameters,
        quantized=quantizable_parameter_count(scene.facts.served) if fp8 else 0,
        tensor_parallel=scene.plan.rollout_tensor_parallel,
        value_bytes=scene.q.compute_bytes,
    )


def _prompt_tokens_at_once(scene: Scene) -> Num:
    """Tokens of the largest batch that a step really asks of the engine: its prompts' prefill."""
    plan = scene.plan
    prompts = minimum(plan.max_num_seqs, sequences_each(scene)) * plan.prompt_tokens
    return minimum(plan.max_num_batched_tokens, prompts)


def _working_set(scene: Scene, tokens: Num) -> Term:
    arch = scene.facts.served
    return generation.ENGINE_WORKING_SET(
        ROLE,
        tokens=tokens,
        hidden=arch.hidden,
        # Rows of experts are in a workspace of their own.
        intermediate=0 if arch.sparse_layers else arch.intermediate,
        tensor_parallel=scene.plan.rollout_tensor_parallel,
        value_bytes=scene.q.compute_bytes,
        max_num_seqs=scene.plan.max_num_seqs,
        vocab=arch.vocab,
    )


def _one_sequence_bytes(scene: Scene) -> Num:
    """KV cache of the longest sequence the engine must be able to hold, per GPU."""
    plan = scene.plan
    longest = plan.prompt_tokens + maximum(plan.response_tokens, plan.validation_response_tokens)
    return _token_bytes(scene) * longest


def _token_bytes(scene: Scene) -> int:
    """KV cache of one token, per GPU."""
    plan, arch = scene.plan, scene.facts.served
    heads = max(arch.kv_heads // plan.rollout_tensor_parallel, 1)
    return 2 * arch.cache_layers * heads * arch.head_dim * kv_value_bytes(plan)


def sending(scene: Scene) -> Iterator[Term]:
    """In what updated weights travel to the engine, on the trainer's GPU."""
    (_, how, buffer_bytes), policy = sync(scene), scene.served
    if how == "bucket":
        buckets = 1 + (scene.plan.rollout == "vllm-separate")
        yield generation.SYNC_BUCKET("policy", buckets=buckets, bucket_bytes=buffer_bytes)
    elif how == "packed":
        yield _packed(scene, policy.name, buffers=2)
        if scene.gathers:
            yield _packed(scene, policy.name, buffers=1, label="gathered weights to be packed")
    else:
        yield policy.largest_tensor()


def arriving(scene: Scene) -> Iterator[Term]:
    """What a separate engine's GPU holds beside its share while updated weights come to it.

    Buckets are received by a process of its own, which hands them to the engine in a third. Packed
    ones come to the engine itself: one is made while two others are still in use. An engine that
    asks for each weight by itself makes room for it as the trainer keeps it.
    """
    (_, how, buffer_bytes), policy = sync(scene), scene.served
    if how == "bucket":
        yield generation.SYNC_BUCKET(ROLE, buckets=3, bucket_bytes=buffer_bytes)
        yield allocator.context(ROLE, scene.facts.gpu)
    elif how == "packed":
        yield _packed(scene, ROLE, buffers=3)
    else:
        yield policy.largest_tensor().of(ROLE)


def sync(scene: Scene) -> Sync:
    """What travels, how, and bytes of a buffer: a plan's own bucket, or the framework's way."""
    found, own = scene.framework.sync(scene.plan), scene.plan.sync_bucket_bytes
    return (found[0], "bucket", own) if own else found


def _packed(scene: Scene, role: str, *, buffers: int, label: str = "") -> Term:
    """Packed weights on their way: at least what a buffer asks for, at most one weight more."""
    policy = scene.served
    *_, buffer_bytes = sync(scene)
    largest_bytes = policy.largest_weight * policy.weight_bytes
    weight_bytes = policy.parameters * policy.weight_bytes
    sizes: dict[str, Any] = {
        "buffers": buffers,
        "buffer_bytes": buffer_bytes,
        "largest_bytes": largest_bytes,
        "weight_bytes": weight_bytes,
    }
    most = minimum(buffers * (buffer_bytes + largest_bytes), weight_bytes)
    between = (generation.PACKED_WEIGHTS.value(**sizes), most)
    return generation.PACKED_WEIGHTS(role, label=label, between=between, **sizes)
