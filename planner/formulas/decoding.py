"""Seconds of a rollout: prefill, then one step per token, in waves of running sequences.

A decoding step reads every weight once and the keys and values of every running
sequence; both are straight lines in the context, so the sum over a response is a
closed form. Sizes may be arrays; unknown peaks give None.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from planner.catalog.architecture import Architecture
from planner.catalog.efficiencies import typical
from planner.catalog.gpu_catalog import Gpu
from planner.formulas.communication import all_reduce_seconds
from planner.formulas.compute import forward_seconds, head_flops, layers_flops
from planner.formulas.duration import Rate
from planner.numeric import Num, maximum, minimum, where

VALUE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1}
POPE = "Pope et al. 2022 (arXiv 2211.05102), section 2: memory and compute of a decoding step"

CONTEXT = Rate(
    "context positions read over a response",
    "maximum(minimum(response_tokens, window - prompt_tokens), 0) * prompt_tokens"
    " + maximum(minimum(response_tokens, window - prompt_tokens), 0)"
    " * (maximum(minimum(response_tokens, window - prompt_tokens), 0) + 1) / 2"
    " + (response_tokens - maximum(minimum(response_tokens, window - prompt_tokens), 0)) * window",
    unit="positions",
    source="sum of min(prompt + t, window) for t = 1 .. response",
    why="Step t attends to the prompt and t tokens, or to the window's once it is full.",
)
WEIGHT_SECONDS = Rate(
    "weights of one decoding step",
    "maximum(weight_bytes / (bandwidth_bytes_per_second * share),"
    " flops / (peak_flops_per_second * compute_share)) / tensor_parallel",
    unit="seconds",
    source=POPE,
    why="Small batches wait for the weights to be read, large ones for the products.",
)
OTHER_EXPERTS = Rate(
    "experts that a step reads beyond those of one token",
    "expert_values * (experts - experts_per_token"
    " - experts * (1 - experts_per_token / experts) ** sequences)",
    unit="values",
    source="expectation when every token chooses its experts evenly and on its own",
    why="One token reads its own experts; many tokens reach nearly all of them.",
    ignores="uneven routing, which reads fewer",
)
CACHE_SECONDS = Rate(
    "keys and values of a response",
    "sequences * maximum(bytes_per_position / (bandwidth_bytes_per_second * share),"
    " flops_per_position / (peak_flops_per_second * compute_share)) * context_positions",
    unit="seconds",
    source=POPE,
    why="Each running sequence reads its own cache; queries that share a head share the read.",
    ignores="padding of blocks, and kernels that leave part of the card idle at small batches",
)
STEP_SECONDS = Rate(
    "one decoding step without its cache",
    "maximum(weight_seconds + reduce_seconds + engine_seconds, launch_seconds)",
    unit="seconds",
    source="measured floors in efficiencies.json",
    why="The host launches kernels while the card computes; whichever is slower sets the step.",
)

DECODING = Rate(
    "rollout",
    "rounds * round_seconds",
    unit="seconds",
    source=POPE,
    why="Every round prefills its prompts, then decodes until its longest response ends.",
)


def decode_seconds(
    arch: Architecture,
    gpu: Gpu,
    *,
    sequences: Num,
    prompt_tokens: Num,
    response_tokens: Num,
    dtype: str,
    tensor_parallel: Num,
    engine: Literal["hf", "vllm"],
    max_num_seqs: Num,
    kv_value_bytes: int,
    concurrent: Num | None = None,
) -> Num | None:
    """Seconds for one engine (one tensor-parallel group) to answer ``sequences`` prompts.

    Args:
        arch: the model.
        gpu: the card, of which the engine has ``tensor_parallel`` in one node.
        sequences: responses this engine generates, at least 1.
        prompt_tokens: length of every prompt.
        response_tokens: length of every response.
        dtype: weights and products.
        tensor_parallel: GPUs of the engine.
        engine: ``hf`` launches every kernel from the host; ``vllm`` replays graphs.
        max_num_seqs: sequences that run at once.
        kv_value_bytes: bytes of one cached value.
        concurrent: sequences the cache has room for, when fewer.

    Returns:
        None when a peak, the bandwidth or the links of the card are unknown.

    Raises:
        ValueError: for another engine or dtype.
    """
    if engine not in ("hf", "vllm"):
        raise ValueError(f"engine: {engine!r} is not known; use 'hf' or 'vllm'.")
    running = minimum(sequences, max_num_seqs)
    if concurrent is not None:
        running = minimum(running, maximum(concurrent, 1))
    waves = sequences // running
    rest = sequences - waves * running

    wave = partial(
        _wave_seconds,
        arch,
        gpu,
        prompt_tokens=prompt_tokens,
        response_tokens=response_tokens,
        dtype=dtype,
        tensor_parallel=tensor_parallel,
        engine=engine,
        kv_value_bytes=kv_value_bytes,
    )
    full = wave(sequences=running)
    if full is None or isinstance(rest, int) and not rest:
        return None if full is None else waves * full
    return waves * full + where(rest > 0, wave(sequences=maximum(rest, 1)), 0.0)


def _wave_seconds(
    arch: Architecture,
    gpu: Gpu,
    *,
    sequences: Num,
    prompt_tokens: Num,
    response_tokens: Num,
    dtype: str,
    tensor_parallel: Num,
    engine: str,
    kv_value_bytes: int,
) -> Num | None:
    """Seconds to prefill and answer ``sequences`` prompts that all run at once."""
    prefill = forward_seconds(
        arch,
        gpu,
        tokens=sequences * prompt_tokens,
        row_tokens=prompt_tokens,
        dtype=dtype,
        head=False,
    )
    reduce = all_reduce_seconds(
        gpu,
        size_bytes=sequences * arch.hidden * VALUE_BYTES[dtype],
        ranks=tensor_parallel,
        gpus_per_node=tensor_parallel,
    )
    peak, bandwidth = gpu.flops_per_second(dtype), gpu.bandwidth_bytes_per_second
    if prefill is None or reduce is None or peak is None or bandwidth is None:
        return None
    rates = {
        "bandwidth_bytes_per_second": bandwidth,
        "share": typical("decode-bandwidth", gpu),
        "peak_flops_per_second": peak,
        "compute_share": typical("forward-compute", gpu),
    }
    flops = layers_flops(arch, tokens=1) + head_flops(arch, tokens=1)
    weights = WEIGHT_SECONDS(
        weight_bytes=(flops / 2 + _other_experts(arch, sequences)) * VALUE_BYTES[dtype],
        flops=flops * sequences,
        tensor_parallel=tensor_parallel,
        **rates,
    )
    hf = engine == "hf"
    step = STEP_SECONDS(
        weight_seconds=weights,
        reduce_seconds=2 * arch.layers * reduce,
        engine_seconds=0.0 if hf else arch.layers * typical("engine-step-seconds-per-layer", gpu),
        launch_seconds=arch.layers * typical("hf-step-seconds-per-layer", gpu) if hf else 0.0,
    )
    # Fewer key/value heads than GPUs: the heads are copied, so a GPU never reads less than one.
    kv_heads = maximum(arch.kv_heads / tensor_parallel, 1.0)
    cache = CACHE_SECONDS(
        sequences=1.0 * sequences,
        bytes_per_position=2 * kv_heads * arch.head_dim * kv_value_bytes,
        flops_per_position=4 * arch.heads * arch.head_dim / tensor_parallel,
        context_positions=_context(arch, prompt_tokens, response_tokens),
        **rates,
    )
    return prefill / tensor_parallel + response_tokens * step + cache


def _other_experts(arch: Architecture, sequences: Num) -> Num:
    """Values of experts that a step reads beyond those that one token uses."""
    if not arch.sparse_layers:
        return 0.0
    return OTHER_EXPERTS(
        expert_values=3.0 * arch.sparse_layers * arch.hidden * arch.expert_intermediate,
        experts=arch.experts,
        experts_per_token=arch.experts_per_token,
        sequences=sequences,
    )


def _context(arch: Architecture, prompt_tokens: Num, response_tokens: Num) -> Num:
    """Positions read over one response, summed over the layers."""
    lengths = {"prompt_tokens": 1.0 * prompt_tokens, "response_tokens": 1.0 * response_tokens}
    whole = CONTEXT(window=2.0**62, **lengths)
    positions = (arch.cache_layers - arch.sliding_layers) * whole
    if arch.sliding_layers:
        window = CONTEXT(window=1.0 * arch.sliding_window, **lengths)
        positions = positions + arch.sliding_layers * window
    return positions
