"""Seconds from a wish to its three plans, in the two kept processes that pages ask.

Run: python -m benchmarks.search [repeats]. Prints a line a wish, then one JSON line. The processes
are started, and their imports paid for, before the clock is.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

from planner.plan import Plan
from planner.plan.chosen import followed
from planner.plan.presets import presets
from planner.search.ask import Searching
from planner.search.wish import Wish, shopping

CARDS = (
    *("a100-40gb", "a100-80gb", "h100-80gb", "h200-141gb"),
    *("l40s", "b200-180gb", "rtx-4090", "a10g"),
)
WISHES: Mapping[str, Wish] = {
    "fit": Wish(goal="fit"),
    "cheapest": Wish(goal="cheapest"),
    "cheapest of eight cards": Wish(goal="cheapest", cards=CARDS),
    "default: cheapest of all cards": Wish(
        goal="cheapest", free=shopping("cheapest"), vendor="nvidia"
    ),
    "cheapest of all cards, up to 64 GPUs": Wish(
        goal="cheapest", free=shopping("cheapest"), vendor="nvidia", max_gpus=64
    ),
    "fewest of up to 64 GPUs": Wish(goal="fewest-gpus", max_gpus=64),
    "longest response": Wish(goal="longest"),
}


def plan_of(framework: str) -> Plan:
    """The 7B preset, under a framework with its defaults."""
    values = presets()["grpo-7b@1"].plan.model_dump()
    return Plan(**followed(values, {}, {"framework": framework}))


def seconds(plan: Plan, wish: Wish) -> float:
    """Of one search; raises RuntimeError where it has no answer."""
    start = time.perf_counter()
    asked = Searching(plan, wish)
    asked.wait()
    taken = time.perf_counter() - start
    if asked.found is None:
        raise RuntimeError(asked.error)
    return taken


def main(repeats: int = 3) -> None:
    """Ask each wish in each framework so often, after once to warm up."""
    answer: dict[str, Any] = {}
    seconds(plan_of("plain"), WISHES["fit"])
    for framework in ("plain", "trl", "verl"):
        plan = plan_of(framework)
        for name, wish in WISHES.items():
            taken = [seconds(plan, wish) for _ in range(repeats)]
            answer[f"{framework}, {name}"] = round(statistics.median(taken), 2)
            print(f"{framework}, {name}: {', '.join(f'{one:.2f}' for one in taken)} s")
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
