"""The process that executes dry runs: a JSON answer to each request.

Started by :mod:`planner.dryrun.ask.port`; imports torch once and stays warm. Requests are JSON
objects with ``plan`` (its fields), ``full_depth``, ``lengths`` (also steps of other lengths) and,
optionally, ``capacity_bytes`` (what of the card is the allocator's; without it there is no end)
and ``snapshot`` (a path that the owner of the process chose).
"""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from planner.background import Refused
from planner.imports import kept_for_good
from planner.jobs.worker import serve

MEMORY_BYTES = 4 * 2**30
"""No dry run needs more data than this, whatever the model."""
IDLE_SECONDS = 900.0
"""Nobody asked for this long: give the memory back."""


def execute(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request.

    Raises:
        Refused: with a sentence, for a plan that no code runs.
    """
    from planner.dryrun.allocator.snapshot import write_snapshot
    from planner.dryrun.ask import request as asked
    from planner.dryrun.ask.stand_in import stand_in
    from planner.dryrun.logs import lengths, summary
    from planner.dryrun.logs.scaled import Whose, scaled, shares
    from planner.dryrun.run.execute import dry_run
    from planner.estimate import estimate
    from planner.plan import Plan
    from planner.plan.frameworks import ours

    if "measure" in request:
        return measured(request["measure"], request["settings"])
    start = time.perf_counter()
    plan = Plan(**request["plan"])
    standing, configs = stand_in(plan), asked.configs_of(plan)
    settings = asked.settings_of(plan, request.get("capacity_bytes"))
    workspace_bytes = asked.workspace_of(plan)
    refused = ""
    try:
        # Of a model measured on the spot nobody knows how its layers repeat.
        whole = bool(request.get("full_depth") or asked.on_the_spot(plan))
        run = partial(dry_run, configs=configs, full_depth=whole, full_length=whole)
        if not ours(standing.code):
            try:
                log = run(standing.plan, code=standing.code)
            except Exception as error:  # whatever another's code raises, ours can still run
                refused = refused_by_theirs(standing.ran, error)
                standing = stand_in(plan, refused)
        if ours(standing.code):
            log = run(standing.plan)
    except (ValueError, NotImplementedError) as error:
        raise Refused(" ".join(str(error).split())) from None
    except RuntimeError as error:
        raise Refused(refused_by_torch(error)) from None
    by: dict[Whose, float] = {}
    if standing.by_formula:
        formula = estimate(plan, without=standing.lacks)
        by = shares(log, formula, standing.by_formula, standing.executed)
        log = scaled(log, by, standing.away)
    trace: list[Any] | None = [] if request.get("snapshot") else None
    found, held = summary.summarise(log, settings, workspace_bytes=workspace_bytes, trace=trace)
    if trace is not None:
        segments = held.allocator.segments()
        write_snapshot(Path(request["snapshot"]), trace, segments, settings=settings)
    if request.get("lengths"):
        shorter = (lengths.shortened(standing.plan, share) for share in lengths.SHARES[1:])
        further = (dry_run(each, configs, code=standing.code) for each in shorter)
        logs = [log, *(scaled(each, by, standing.away) for each in further)]
        rows = lengths.fragmentation(logs, settings, workspace_bytes=workspace_bytes)
        found["lengths"] = [asdict(row) for row in rows]
    seconds = time.perf_counter() - start
    found |= {"versions": dict(asked.versions_of(plan)), "seconds": seconds}
    return found | ({"refused": refused} if refused else {})


def refused_by_theirs(ran: str, error: Exception) -> str:
    """Why a framework's own code stopped, as a sentence: the first line of its reason."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason")
    return f"{ran} stopped without data: {type(error).__name__}, {line.rstrip('.')}."


def measured(config: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """Coefficients of a config on the spot; what cannot be measured is an ``error`` sentence."""
    from planner.dryrun.run import spot

    try:
        return spot.measure(config, settings)
    except ValueError as error:
        return {"error": " ".join(str(error).split())}


def refused_by_torch(error: RuntimeError) -> str:
    """A sentence in place of a traceback: torch's own first line, and what still holds."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason")
    return (
        f"torch cannot run this step on fake tensors: {line.rstrip('.')}. "
        "The estimate does not depend on the dry run."
    )


def warm_up() -> None:
    """What takes seconds and is done once: imports."""
    with kept_for_good():
        import torch

        import planner.dryrun.run.execute
        import planner.dryrun.run.spot  # noqa: F401

    torch.set_num_threads(1)


def main() -> None:
    """Answer until nobody asks any more, or nobody does for long."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")
    serve(
        lambda request, _: execute(request),
        "The dry run failed",
        first=warm_up,
        memory_bytes=MEMORY_BYTES,
        idle_seconds=IDLE_SECONDS,
    )


if __name__ == "__main__":
    main()
