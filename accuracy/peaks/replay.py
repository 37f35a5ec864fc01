"""The dry run's replay of the allocator beside the same rows: what it says the driver saw.

``python -m accuracy.peaks.replay`` executes every row's plan without data, replays its steps
through the allocator and writes ``accuracy/measured/peaks-replayed.json``: bytes by row and level,
and the plan that ran, so that a row whose plan is another one by now is not compared. Takes minutes
and needs torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from accuracy.peaks.compare import Compared, levels
from planner import catalog

FILE = Path(__file__).resolve().parents[1] / "measured" / "peaks-replayed.json"


@cache
def _file() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    return found


def replayed(item: Compared) -> Mapping[str, int]:
    """What the dry run says at each of a row's levels; empty where its plan was not run."""
    found = _file().get(item.row.id, {})
    return found["bytes"] if found and found["fields"] == item.how.fields else {}


Judged = tuple[Compared, float]
"""A row, and the signed error of its replayed device bytes."""


def judged(items: Sequence[Compared]) -> tuple[list[Judged], list[Judged]]:
    """Rows with device bytes and a replay: those whose replay the card can hold, and the others."""
    within: list[Judged] = []
    above: list[Judged] = []
    for item in items:
        if "device" not in item.row.peaks or not (found := replayed(item)):
            continue
        # What the row's source holds and no field says stands in neither.
        size = found["device"] + item.completed["device"] - item.estimated["device"]
        card = catalog.gpu(str(item.how.fields["gpu"])).require_budget_bytes()
        one = (item, size / item.row.peaks["device"] - 1)
        (within if size <= card else above).append(one)
    return within, above


def text(ran: Sequence[Compared]) -> str:
    """What the estimate and the replay say of device bytes of rows whose plans say all."""
    within, above = judged([one for one in ran if one.how.exact])
    lines = ["| rows | count | median | p5 | p95 | p95 of size |", "|---|---:|---:|---:|---:|---:|"]
    for name, errors in (
        ("estimate", [one.completed_error("device") for one, _ in within]),
        ("dry run, replayed", [error for _, error in within]),
    ):
        low, high = np.percentile(errors, [5, 95])
        figures = (np.median(errors), low, high, np.percentile(np.abs(errors), 95))
        shown = " | ".join(f"{100 * float(figure):+.1f} %" for figure in figures)
        lines.append(f"| {name} | {len(errors)} | {shown} |")
    listed = ", ".join(one.row.id for one, _ in above)
    said = INTRODUCTION.format(rest=len(above), listed=listed).strip()
    return said + "\n\n" + "\n".join(lines)


INTRODUCTION = """
**What the driver saw, by the replay.** The estimate has a middle and bounds for what the allocator
holds and no tensor uses; the dry run replays it, event by event (`accuracy/peaks/replay.py`). Of
rows whose plan says all that decides the peak, each with what no field says added; {rest} more left
out, whose replay is above the card ({listed}): there a real allocator gives back what is free.
"""


def main() -> None:
    """Run every plan that ran for real; the file is written anew after each."""
    from accuracy.peaks.mapping import results
    from accuracy.peaks.outside import hand_over, nothing_known
    from planner.dryrun.ask.port import DryRunError, Port
    from planner.plan import Plan

    port, found = Port(), {}
    with nothing_known():
        hand_over()
        for item in results()[0]:
            if item.row.outcome != "ran":
                continue
            try:
                footprint = port.run(Plan(**item.how.fields)).footprint
            except DryRunError as error:
                print(item.row.id, error, flush=True)
                continue
            sizes = {level: levels(footprint)[level] for level in item.estimated}
            found[item.row.id] = {"bytes": sizes, "fields": item.how.fields}
            said = ", ".join(
                f"{level} {size / item.row.peaks[level] - 1:+.1%}" for level, size in sizes.items()
            )
            print(item.row.id, said, flush=True)
            rows = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
            FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
    port.close()


if __name__ == "__main__":
    main()
