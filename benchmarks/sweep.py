"""Distinct valid plans per second of a sweep, all phase peaks and step times included.

Run: python -m benchmarks.sweep [repeats]. Prints one line a repeat, then one JSON line.
"""

from __future__ import annotations

import json
import platform
import sys
import time

from planner.plan import Plan
from planner.sweeps.table import sweep

PLAN = Plan(
    model="Qwen/Qwen2.5-7B",
    method="grpo",
    gpu="h100-80gb",
    gpus=8,
    prompt_tokens=512,
    response_tokens=2048,
)
OVER = {
    "prompts_per_step": [256 * count for count in range(1, 11)],
    "micro_batch_size": [1, 2, 4, 8, 16],
    "response_tokens": list(range(256, 256 + 8 * 2000, 8)),
    "gpus": [1, 2, 4, 8, 16, 32, 64, 128],
}
"""Batch × length × GPU count: 800,000 plans."""


def main(repeats: int = 5) -> None:
    """Sweep ``repeats`` times; the first one also pays for imports and caches."""
    rates = []
    for _ in range(repeats):
        start = time.perf_counter()
        table = sweep(PLAN, OVER)
        seconds = time.perf_counter() - start
        valid = int(table["valid"].sum())
        distinct = len(table[list(OVER)].drop_duplicates())
        rates.append(valid / seconds)
        print(f"{valid:,} valid of {distinct:,} distinct plans in {seconds:.2f} s")
    print(
        json.dumps(
            {
                "plans_per_second_first": round(rates[0]),
                "plans_per_second_best": round(max(rates)),
                "machine": platform.machine(),
                "python": platform.python_version(),
            }
        )
    )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
