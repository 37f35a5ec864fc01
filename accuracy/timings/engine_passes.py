"""Seconds of a decoding step and of a prefill, as published benchmarks of engines count them."""

from __future__ import annotations

from typing import Literal

from planner.catalog.architecture import Architecture
from planner.catalog.gpu_catalog import Gpu
from planner.numeric import Num, maximum, minimum
from planner.timing.engine_step import Generator


def decode_step_seconds(
    arch: Architecture,
    gpu: Gpu,
    *,
    sequences: Num,
    context_tokens: Num,
    tensor_parallel: int = 1,
    expert_parallel: bool = False,
    dtype: str = "bf16",
    kv_value_bytes: float = 2,
    engine: Literal["hf", "vllm"] = "vllm",
    eager: bool = False,
    logprobs: bool = False,
    async_scheduling: bool = True,
) -> Num | None:
    """Seconds of one steady decoding step: every running sequence gets one token.

    None where a peak of the card, or how its GPUs are linked, is unknown.
    """
    return Generator(
        arch=arch,
        gpu=gpu,
        dtype=dtype,
        tensor_parallel=tensor_parallel,
        expert_parallel=expert_parallel,
        kv_value_bytes=kv_value_bytes,
        engine=engine,
        eager=eager,
        logprobs=logprobs,
        async_scheduling=async_scheduling,
    ).step(sequences, context_tokens)


def prefill_seconds(
    arch: Architecture,
    gpu: Gpu,
    *,
    prompts: Num,
    prompt_tokens: Num,
    max_num_batched_tokens: Num = 2**62,
    tensor_parallel: int = 1,
    dtype: str = "bf16",
) -> Num | None:
    """Seconds until every prompt has its first token, head and sampler of the last pass included.

    None as above.
    """
    generator = Generator(arch=arch, gpu=gpu, dtype=dtype, tensor_parallel=tensor_parallel)
    tokens = prompts * prompt_tokens
    at_once = minimum(tokens, max_num_batched_tokens)
    passed = generator.prefill(at_once)
    attended = generator.prefill_attention(prompts, prompt_tokens)
    last = generator.parts(prompts)
    if passed is None or attended is None or last is None:
        return None
    return tokens / at_once * maximum(*passed) + attended + last.head + last.sampler
