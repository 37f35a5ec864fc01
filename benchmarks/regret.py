"""How much better a plan than the recommended one there was, once dry runs have the last word.

Run: python -m benchmarks.regret [cases] [candidates]. Plans are drawn until so many cases can be
held: in each some plan fits by its estimate, and dry runs execute it. The search's balanced plan is
held against plans of the same space that the goal puts before it (they do not fit by their
estimate, or not with the margin) and next behind it; each is dry-run, and the best of those that
fit by their dry run is what could have been chosen. Seconds are the estimate's for all of them: a
dry run executes a step's memory, not its time. Prints a line a case, then one JSON line.
Figures of a run stand in docs/search.md.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

from planner.background import Refused
from planner.dryrun.ask.port import Port
from planner.plan import Plan, try_plan
from planner.search.judging import rows_of
from planner.search.options import space_of
from planner.search.pool import Pool
from planner.search.space import merged
from planner.search.staged import Staged
from planner.search.tiers import best, order
from planner.search.wish import Wish

FREE = ("micro_batch_size", "gradient_checkpointing", "logits", "optimizer")
MODELS = {
    "Qwen/Qwen2.5-0.5B": ("rtx-4090", "l4", "a10"),
    "Qwen/Qwen2.5-1.5B": ("rtx-4090", "rtx-5090", "a100-40gb"),
    "Qwen/Qwen2.5-3B": ("a100-40gb", "rtx-a6000", "l40s"),
    "Qwen/Qwen3-4B": ("l40s", "a100-80gb"),
    "Qwen/Qwen2.5-7B": ("a100-80gb", "h100-80gb", "h200-141gb"),
}
NEAR = 1.25
"""Plans up to so many times the card are looked at."""


def cases() -> Iterator[Plan]:
    """Plans drawn with a fixed seed, whatever fits or not."""
    chance = random.Random(13)
    while True:
        model = chance.choice(sorted(MODELS))
        plan, _ = try_plan(
            {
                "model": model,
                "gpu": chance.choice(MODELS[model]),
                "gpus": chance.choice((1, 2, 4, 8)),
                "method": chance.choice(("grpo", "grpo", "sft", "intuitor", "ppo")),
                "prompt_tokens": chance.choice((256, 512, 1024)),
                "response_tokens": chance.choice((512, 1024, 2048, 4096)),
            }
        )
        if plan is not None:
            yield plan


def ranked(plan: Plan, wish: Wish) -> tuple[Any, list[tuple[Plan, float, int]]]:
    """The search, and every plan of its space near the card in the goal's order: seconds, word."""
    space = space_of(plan, wish)
    search = Staged(space, wish, Pool(space.plan, wish, plan), rows_of)
    search.run()
    options = [merged(each) for each in product(*space.trainer, *space.engine)]
    combinations = space.allowed(options, {})
    mesh = {**space.trainer_sizes[0], **space.engine_sizes}
    rows = rows_of(space.plan, combinations, mesh, None)
    rows = rows.at(rows.device_bytes <= NEAR * rows.budget_bytes)
    severity, changed, sizes = search.pool.of(rows, combinations, mesh)
    found = []
    for which in best(order("balanced", wish, rows, sizes, severity, changed)):
        micro = int(mesh["micro_batch_size"][rows.place[which]])
        made = space.made({**combinations[rows.combination[which]], "micro_batch_size": micro})
        if made is not None:
            found.append((made, float(rows.seconds[which]), int(rows.code[which])))
    return search, found


def of(port: Port, plan: Plan, most: int) -> dict[str, Any] | None:
    """One case; None where nothing fits by the estimate, or no dry run executes the plan."""
    wish = Wish(goal="fastest", free=FREE)
    search, plans = ranked(plan, wish)
    winner = search.winner("balanced")
    if winner is None:
        return None
    chosen = search.space.made(winner.changes)
    at = next(n for n, (made, _, _) in enumerate(plans) if made == chosen)
    before = max(most // 2, 1)
    taken = plans[max(at - before, 0) : at] + plans[at : at + most - min(at, before)]
    fits: list[float] = []
    own, worst = "", 0.0
    for made, seconds, _ in sorted(taken, key=lambda each: each[0] != chosen):
        try:
            run = port.run(made)
        except Refused:
            if made == chosen:
                return None  # nothing to hold it against
            continue
        executed = [one.difference for one in run.comparisons if one.difference is not None]
        worst = max((worst, *executed), key=abs)
        own = run.footprint.verdict.word if made == chosen else own
        if run.footprint.verdict.word == "fits":
            fits.append(seconds)
    seconds = plans[at][1]
    return {
        "candidates": len(taken),
        "word": own,
        "regret": seconds / min(fits) - 1 if own == "fits" else None,
        "worst_difference": worst,
    }


def main(count: int = 50, most: int = 60) -> None:
    """Every case, and what they come to."""
    port, found = Port(), list[dict[str, Any]]()
    began = time.monotonic()
    for drawn, plan in enumerate(cases(), 1):
        one = of(port, plan, most)
        told = f"{plan.method} {plan.model} {plan.gpus} x {plan.gpu} {plan.response_tokens}"
        print(f"{drawn:3} {told}: {one}", flush=True)
        if one is not None:
            found.append(one)
        if len(found) == count:
            break
    port.close()
    regrets = sorted(one["regret"] for one in found if one["regret"] is not None)
    print(
        json.dumps(
            {
                "drawn": drawn,
                "held_against_dry_runs": len(found),
                "words": dict(Counter(one["word"] for one in found)),
                "candidates": sum(one["candidates"] for one in found),
                "regret_median": regrets[len(regrets) // 2] if regrets else None,
                "regret_mean": sum(regrets) / len(regrets) if regrets else None,
                "regret_most": regrets[-1] if regrets else None,
                "worst_difference": max((one["worst_difference"] for one in found), key=abs),
                "without_regret": sum(each == 0 for each in regrets),
                "seconds": round(time.monotonic() - began),
            }
        )
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
