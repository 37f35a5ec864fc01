"""Seconds and memory of dry runs, beside PyTorch's MemTracker on the same steps.

Run: python -m benchmarks.dry_run [part ...]; parts are ``small`` (Qwen2.5-0.5B), ``large`` (7B),
``grpo``, ``trl``, ``verl``, ``grade`` and ``sharded``, all of them by default. Each figure comes
from a fresh process; a first run of a small plan pays for imports and is not counted. Prints a
table, then a JSON line.

CPU time is what the process itself used; wall time also waits for whatever else the machine does.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

MIB = 2**20
SFT: dict[str, Any] = {
    "method": "sft",
    "gpu": "h100-80gb",
    "gpus": 1,
    "sharding": "none",
    "master_dtype": "none",
    "batch_shape": "full",
    "prompts_per_step": 4,
    "micro_batch_size": 4,
    "prompt_tokens": 512,
    "response_tokens": 512,
    "attention": "sdpa",
    "logits": "full",
    "optimizer": "adamw-foreach",
    "gradient_checkpointing": "none",
}
"""One micro-batch, so that every tool runs as many rounds; nobody replaces the optimizer's ops."""
SMALL = {**SFT, "model": "Qwen/Qwen2.5-0.5B"}
LARGE = {**SFT, "model": "Qwen/Qwen2.5-7B", "gradient_checkpointing": "full"}
GRPO = {
    "model": "Qwen/Qwen2.5-7B",
    "method": "grpo",
    "gpu": "h100-80gb",
    "gpus": 8,
    "sharding": "fsdp2",
}
FRAMEWORKS = {
    "trl": {**GRPO, "framework": "trl", "kl": "none"},
    "verl": {**GRPO, "framework": "verl"},
}
"""The same by their own code."""
GRADE = {
    "model": "Qwen/Qwen3-4B",
    "method": "grade",
    "gpu": "h100-80gb",
    "gpus": 1,
    "sharding": "none",
    "master_dtype": "none",
    "prompts_per_step": 2,
    "micro_batch_size": 2,
    "prompt_tokens": 64,
    "response_tokens": 32,
    "grade_kl": "batch",
    "batch_shape": "full",
    "optimizer": "adamw-foreach",
    "gradient_checkpointing": "none",
}
SHARDED = {
    "model": "meta-llama/Llama-3.1-70B",
    "method": "sft",
    "gpu": "h100-80gb",
    "gpus": 64,
    "sharding": "fsdp2",
    "prompts_per_step": 64,
}


def mem_tracker(values: dict[str, Any]) -> dict[str, Any]:
    """Two steps of the product's own code under MemTracker, as its documentation has it.

    Fake tensors of the CPU count requested bytes (it rounds those of CUDA to 512); the branches
    are a GPU's.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    from planner.dryrun.ask.request import configs_of
    from planner.dryrun.run import world
    from planner.dryrun.run.execute import STEPS
    from planner.plan import Plan
    from planner.steps import run as runs
    from planner.steps.stage import Stage

    plan = Plan(**values)
    step = _step(plan)
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(world._branches(plan, "gpu", "cpu"))
        stack.enter_context(world._kernelless())
        run = runs.build(plan, Stage("cpu"), configs_of(plan))
        tracker = MemTracker()
        tracker.track_external(*run.models.values(), *run.optimizers.values())
        with tracker:
            for _ in range(STEPS):
                # It refuses a module's second step while it remembers the first.
                tracker.reset_mod_stats()
                step(run)
        snapshots = tracker.get_tracker_snapshot("peak")
    return {"peak_bytes": max(sums["Total"] for sums in snapshots.values())}


def ours(values: dict[str, Any], full_depth: bool = False, naive: bool = False) -> dict[str, Any]:
    """The dry run of a plan alone, to its log; scratch inside kernels is left out.

    ``naive`` leaves autograd's branches as any dispatch mode makes them, with an extra gradient.
    """
    from planner.dryrun.ask.request import configs_of
    from planner.dryrun.run import tracker
    from planner.dryrun.run.execute import dry_run
    from planner.plan import Plan

    plan = Plan(**values)
    with ExitStack() as stack:
        if naive:
            stack.enter_context(patch.object(tracker, "accumulates", lambda *_: False))
            stack.enter_context(patch.object(tracker, "IN_PLACE", {}))
        log = dry_run(plan, configs_of(plan), full_depth=full_depth)
    return {"peak_bytes": most_live(log), "notes": log.notes}


def answered(values: dict[str, Any]) -> dict[str, Any]:
    """All that the worker does for an answer: run, expand, allocator, timeline."""
    from planner.background import Refused
    from planner.dryrun.run.worker import execute
    from planner.plan import Plan

    try:
        found = execute({"plan": Plan(**values).model_dump()})
    except Refused as error:
        return {"error": str(error)}
    peak = max(phase["live_bytes"] for phase in found["phases"])
    return {"peak_bytes": peak, "notes": found["notes"]}


def most_live(log: Any) -> int:
    """Most live device bytes of the last step at any instant, phases or not."""
    from planner.dryrun.logs.curve import last_step
    from planner.dryrun.logs.log import BIRTH, DEATH

    live = most = 0
    start = last_step(log)
    for at, (kind, key, size) in enumerate(log.events):
        if kind in (BIRTH, DEATH) and not log.made[key].host:
            live += size if kind == BIRTH else -size
            if at >= start:
                most = max(most, live)
    return most


def _step(plan: Any) -> Callable[[Any], None]:
    from planner.plan.methods import part

    step: Callable[[Any], None] = part(plan.method, "step", "step")
    return step


WORK: dict[str, dict[str, tuple[Callable[..., dict[str, Any]], dict[str, Any], dict[str, Any]]]] = {
    size: {
        f"{size}: MemTracker, fake tensors": (mem_tracker, plan, {}),
        f"{size}: full depth": (ours, plan, {"full_depth": True}),
        f"{size}: full depth, mode's branches kept": (
            ours,
            plan,
            {"full_depth": True, "naive": True},
        ),
        f"{size}: extrapolated": (ours, plan, {}),
    }
    for size, plan in (("small", SMALL), ("large", LARGE))
} | {
    "grpo": {"7B GRPO, FSDP2 on 8 GPUs: an answer": (answered, GRPO, {})},
    **{
        name: {f"7B GRPO by {name}'s code on 8 GPUs: an answer": (answered, values, {})}
        for name, values in FRAMEWORKS.items()
    },
    "grade": {"GRADE, 32 tokens, three Qwen3-4B: an answer": (answered, GRADE, {})},
    "sharded": {"70B SFT, FSDP2 on 64 GPUs: an answer": (answered, SHARDED, {})},
}
REPEATS = 2
"""Runs of which the fastest counts; a slow one is counted as it is."""
SLOW_SECONDS = 30.0


def timed(part: str, name: str) -> dict[str, Any]:
    """One figure in this process, warm; the fastest of some runs, and the most memory of all."""
    from planner.dryrun.run.worker import warm_up

    warm_up()
    warnings.simplefilter("ignore")
    work, values, options = WORK[part][name]
    small = {**values, "model": "Qwen/Qwen2.5-0.5B"}
    if work is answered:
        answered({**small, "response_tokens": min(8, small.get("response_tokens", 8))})
    else:
        ours(SMALL)
    times = []
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        found = work(values, **options)
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
        if times[-1][0] > SLOW_SECONDS:
            break
    cpu, wall = min(times)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"cpu_seconds": cpu, "wall_seconds": wall, "rss_bytes": rss, **found}


def main(parts: list[str]) -> None:
    """Each figure in a fresh process; ratios are to MemTracker on fake tensors, in CPU time."""
    rows: dict[str, dict[str, Any]] = {}
    print(f"{platform.machine()}, Python {platform.python_version()}, one thread")
    for part in parts or list(WORK):
        base = 0.0
        for name in WORK[part]:
            command = [sys.executable, "-m", "benchmarks.dry_run", "--one", part, name]
            told = subprocess.run(command, capture_output=True, text=True, check=False)
            if told.returncode:
                said = told.stderr.strip().splitlines() or [f"ended, status {told.returncode}"]
                print(f"{name}: {said[-1]}")
                continue
            row = rows[name] = json.loads(told.stdout.strip().splitlines()[-1])
            base = base or row["cpu_seconds"]
            print(
                f"{name:50} {row['cpu_seconds']:7.2f} s CPU {row['wall_seconds']:7.2f} s wall "
                f"{base / row['cpu_seconds']:6.1f}× "
                f"{row.get('peak_bytes', 0) / MIB:12,.2f} MiB peak "
                f"{row['rss_bytes'] / MIB:6,.0f} MiB RSS, load {os.getloadavg()[0]:.1f} "
                f"{row.get('error', '')}",
                flush=True,
            )
    print(json.dumps(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(timed(*sys.argv[2:4])))
    else:
        main(sys.argv[1:])
