"""The dry run's replay of the allocator beside the same rows: what it says the driver saw.

``python -m accuracy.peaks.replay`` executes every row's plan without data, replays its steps
through the allocator on the row's card and writes ``accuracy/measured/peaks-replayed.json``: bytes
by row and level, how often cached memory was given back, whether that did not do, and the plan that
ran, so that a row whose plan is another one by now is not compared. Takes minutes and needs torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from accuracy.peaks.compare import Compared, levels

FILE = Path(__file__).resolve().parents[1] / "measured" / "peaks-replayed.json"


@cache
def _file() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    return found


def entry(item: Compared) -> Mapping[str, Any]:
    """What the dry run said of a row; empty where its plan was not run."""
    found = _file().get(item.row.id, {})
    return found if found and found["fields"] == item.how.fields else {}


def error(item: Compared) -> float:
    """The signed error of a row's replayed device bytes, with what no field says of it."""
    more = item.completed["device"] - item.estimated["device"]
    return float((entry(item)["bytes"]["device"] + more) / item.row.peaks["device"] - 1)


def judged(ran: Sequence[Compared]) -> list[Compared]:
    """The rows that have device bytes and a replay."""
    return [one for one in ran if "device" in one.row.peaks and entry(one)]


def text(ran: Sequence[Compared]) -> str:
    """What the estimate and the replay say of device bytes, by what a plan can say of the row."""
    rows = judged(ran)
    lines = ["| rows | by | count | median | p5 | p95 | p95 of size |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|")
    for name, group in (
        ("transformers' own kernels, stated settings", [one for one in rows if one.how.exact]),
        ("high confidence, stated settings, a plan says it all", [it for it in rows if it.whole]),
    ):
        lines.append(_line(name, "estimate", [it.completed_error("device") for it in group]))
        lines.append(_line(name, "dry run, replayed", [error(one) for one in group]))
    return INTRODUCTION.strip() + "\n\n" + "\n".join(lines) + "\n\n" + _card(rows)


def _line(name: str, by: str, errors: Sequence[float]) -> str:
    low, high = np.percentile(errors, [5, 95])
    figures = (np.median(errors), low, high, np.percentile(np.abs(errors), 95))
    shown = " | ".join(f"{100 * float(figure):+.1f} %" for figure in figures)
    return f"| {name} | {by} | {len(errors)} | {shown} |"


def _card(rows: Sequence[Compared]) -> str:
    """Which rows the card's size bears on: cached memory given back, or out of memory even so."""
    back = [one for one in rows if entry(one)["alloc_retries"]]
    ended = [one for one in rows if entry(one)["out_of_memory"]]
    return (
        f"Of the {len(rows)} rows with device bytes, {len(back) + len(ended)} would not fit their "
        f"card if the allocator never freed its cache. In {len(back)} rows the replay frees the\n"
        f"cache and goes on, as the real runs did: {_listed(back)}. In {len(ended)} rows it\n"
        f"runs out of memory even so: {_listed(ended)}; these are planned without the kernels of "
        "the real runs."
    )


def _listed(items: Sequence[Compared]) -> str:
    return ", ".join(f"{one.row.id} {100 * error(one):+.1f} %" for one in items) or "none"


INTRODUCTION = """
**What the driver saw, by the replay.** The estimate has a middle and bounds for what the allocator
holds and no tensor uses; the dry run replays it, event by event, on a card of the row's size
(`accuracy/peaks/replay.py`). Each row includes the bytes that no field
states.
"""


def main() -> None:
    """Run every plan that ran for real; the file is written anew after each."""
    from accuracy.peaks.mapping import results
    from accuracy.peaks.outside import hand_over, nothing_known
    from planner.background import Refused
    from planner.dryrun.ask.port import Port
    from planner.plan import Plan

    port, found = Port(), {}
    with nothing_known():
        hand_over()
        for item in results()[0]:
            if item.row.outcome != "ran":
                continue
            try:
                ran = port.run(Plan(**item.how.fields))
            except Refused as error:
                print(item.row.id, error, flush=True)
                continue
            sizes = {level: levels(ran.footprint)[level] for level in item.estimated}
            found[item.row.id] = {
                "bytes": sizes,
                "alloc_retries": ran.alloc_retries,
                "out_of_memory": ran.out_of_memory,
                "fields": item.how.fields,
            }
            said = ", ".join(
                f"{level} {size / item.row.peaks[level] - 1:+.1%}" for level, size in sizes.items()
            )
            print(item.row.id, said, flush=True)
            rows = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
            FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
    port.close()


if __name__ == "__main__":
    main()
