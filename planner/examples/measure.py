"""``python -m planner.examples.measure``: dry-runs documents 001 and 002, writes dry_runs.json.

Takes a minute or two a case. Words after the command choose cases by parts of their keys;
the others keep the figures they have.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from planner.background import Refused
from planner.dryrun.ask.answer import answer
from planner.dryrun.ask.request import versions
from planner.dryrun.run import worker
from planner.examples.dry_runs import CASES, PATH, Case


def phases(case: Case) -> dict[str, int]:
    """Most requested bytes of every phase that the step executes, by a dry run.

    Raises:
        ValueError: with the dry run's sentence, when there is no code for the plan.
    """
    try:
        found = worker.execute({"plan": case.plan.model_dump()})
    except Refused as error:
        raise ValueError(f"{case.key}: {error}") from None
    compared = answer(case.plan, found).comparisons
    return {one.phase: one.dry_bytes for one in compared if one.dry_bytes is not None}


def main(wanted: Sequence[str]) -> None:
    """Measure the chosen cases one after the other; the file is written after each."""
    for case in CASES:
        if wanted and not any(word in case.key for word in wanted):
            continue
        start = time.perf_counter()
        found = phases(case)
        kept = json.loads(PATH.read_text("utf-8"))["cases"] if PATH.exists() else {}
        kept[case.key] = found
        rows = {one.key: kept[one.key] for one in CASES if one.key in kept}
        written = {"versions": dict(versions()), "cases": rows}
        PATH.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        print(f"{time.perf_counter() - start:6.1f} s  {case.key}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
