"""Combinations of choices judged in two processes: every phase's peak and time of every plan.

Run: python -m benchmarks.combinations [repeats]. Prints one line a repeat, then one JSON line. The
processes are started, and their imports paid for, before the clock is.
"""

from __future__ import annotations

import gc
import json
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import Any

from planner.plan import Plan
from planner.sweeps.table import rows

PLAN = Plan(
    model="Qwen/Qwen2.5-14B",
    method="grpo",
    gpu="a100-40gb",
    gpus=8,
    prompt_tokens=512,
    response_tokens=8192,
    kl="loss",
)
CHOICES: Mapping[str, Sequence[Any]] = {
    "sharding": ["fsdp2"],
    "gradient_checkpointing": ["full", "none"],
    "finetuning": ["full", "lora"],
    "logits": ["full", "chunked", "fused"],
    "optimizer": ["adamw-fused", "adamw-8bit"],
    "offload": ["none", "all-between-phases"],
    "reference": ["copy", "offloaded"],
    "rollout_tensor_parallel": [1, 2, 4, 8],
    "vllm_sleep_level": [0, 1, 2],
    "enforce_eager": [False, True],
}
SIZES: Mapping[str, Sequence[Any]] = {
    "micro_batch_size": [1, 2, 4, 8],
    "logprob_micro_batch_size": [1, 4, 8],
    "gpu_memory_utilization": [0.3, 0.4, 0.5, 0.6, 0.7, 0.8],
    "max_num_seqs": [64, 256],
}


def judged(combinations: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Combinations that have a valid plan, and valid plans."""
    gc.disable()
    kinds = plans = 0
    for _, columns in rows(PLAN, combinations, SIZES):
        kinds += int(columns["valid"].any(axis=1).sum())
        plans += int(columns["valid"].sum())
    gc.enable()
    return kinds, plans


def main(repeats: int = 5) -> None:
    """Judge ``repeats`` times; the first one also pays for imports and caches."""
    found = [dict(zip(CHOICES, each, strict=True)) for each in product(*CHOICES.values())]
    # What is alike goes to one process: it shares more.
    halves = (found[: len(found) // 2], found[len(found) // 2 :])
    taken = []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for _ in range(repeats + 1):
            start = time.perf_counter()
            kinds, plans = (sum(part) for part in zip(*pool.map(judged, halves), strict=True))
            taken.append(time.perf_counter() - start)
            print(f"{plans:,} valid plans of {kinds:,} combinations in {taken[-1]:.2f} s")
    print(
        json.dumps(
            {
                "combinations": kinds,
                "plans": plans,
                "seconds_best": round(min(taken[1:]), 3),
                "seconds_median": round(sorted(taken[1:])[repeats // 2], 3),
                "machine": platform.machine(),
                "python": platform.python_version(),
            }
        )
    )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
