"""Milliseconds of one estimate, and of making a plan, by method; no plan is asked twice.

Run: python -m benchmarks.estimate [plans]. Prints one line a method, then one JSON line.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from planner.estimate import estimate
from planner.plan import Plan

METHODS = ("sft", "grpo", "ppo", "intuitor")


def main(plans: int = 200) -> None:
    """Time ``plans`` estimates of each method, each at a length of its own."""
    medians = {}
    for method in METHODS:
        estimate(Plan(method=method, prompts_per_step=512))
        making, judging = [], []
        for length in range(1024, 1024 + plans):
            start = time.perf_counter()
            plan = Plan(method=method, prompts_per_step=512, response_tokens=length)
            made = time.perf_counter()
            estimate(plan)
            judging.append(time.perf_counter() - made)
            making.append(made - start)
        medians[method] = round(1e3 * statistics.median(judging), 2)
        print(
            f"{method:9} plan {1e3 * statistics.median(making):.2f} ms, estimate "
            f"{medians[method]:.2f} ms (median), {1e3 * max(judging):.2f} ms (slowest)"
        )
    print(json.dumps({"estimate_milliseconds_median": medians}))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
