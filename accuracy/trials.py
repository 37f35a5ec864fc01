"""Runs the trials of a card and keeps them, in one command.

``python -m accuracy.trials --gpu h200-141gb --out accuracy/measured/trials-h200-141gb.json`` runs
every trial of :mod:`accuracy.trial_cases` with ``python -m planner trial``, one after the other, on
the local card, and writes the results with the dry run's predictions beside them after each. With
``--resume`` it goes on where it was stopped. docs/accuracy.md says what they show. Downloads
nothing; weights are random.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from accuracy.cards import check_card
from accuracy.trial_cases import TrialCase, cases
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import request_of
from planner.trial.ask.result import TrialResult, read_result

LIMIT_SECONDS = 240.0
"""Of one trial."""
GRACE_SECONDS = 60.0


def measure(
    found: Iterable[TrialCase], out: Path, *, gpu: str, device: str, limit_seconds: float
) -> None:
    """Run every trial that ``out`` has no result of, and write the file after each.

    One that failed is no result: it is tried again.

    Args:
        found: what to run.
        out: JSON file; what it holds is kept.
        gpu: the card's key in the catalog.
        device: ``cuda:0``, or ``cpu`` where the loop itself is tried.
        limit_seconds: of one trial.
    """
    rows = list(stored(out)) if out.exists() else []
    rows = [row for row in rows if row["result"]["status"] != "failed"]  # tried again
    done = {row["name"] for row in rows}
    for case in found:
        if case.name in done:
            continue
        result = run(case, device, limit_seconds)
        if result is None:
            print(f"{case.name}: no result came back; it is tried again with --resume", flush=True)
            continue
        said = result.model_dump(mode="json", by_alias=True)
        rows.append({"name": case.name, "group": case.group, "part": case.part, "result": said})
        _write(out, gpu, rows)
        print(f"{len(rows)}: {case.name}: {result.status}, {result.seconds:.0f} s", flush=True)


def run(case: TrialCase, device: str, limit_seconds: float) -> TrialResult | None:
    """The result of one trial's command; None when it printed none."""
    request = request_of(
        case.plan, device=device, limit_seconds=limit_seconds, **dict(case.choices)
    )
    try:
        done = subprocess.run(
            [sys.executable, "-m", "planner", *TRIALS.command(TRIALS.new(request))],
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_seconds + GRACE_SECONDS,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
    except subprocess.TimeoutExpired:
        return None
    lines = done.stdout.splitlines()
    try:
        return read_result(lines[-1]) if lines else None
    except ValueError:
        return None


def stored(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a file of this command, their results read strictly.

    Raises:
        ValueError: when it is no such file.
    """
    data = json.loads(path.read_text("utf-8"))
    for row in data["cases"]:
        read_result(json.dumps(row["result"]))
        yield row


def _write(out: Path, gpu: str, rows: list[dict[str, Any]]) -> None:
    """One trial a line; a stop while writing leaves the file as it was."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    fresh = out.with_suffix(".part")
    fresh.write_text(f'{{"gpu": {json.dumps(gpu)}, "cases": [\n{lines}\n]}}\n', "utf-8")
    fresh.replace(out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every trial."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.trials", description=__doc__)
    parser.add_argument("--gpu", required=True, help="the card's key in the catalog")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--resume", action="store_true", help="keep the results in the file")
    parser.add_argument("--only", default="", help="run trials whose name has this in it")
    parser.add_argument("--limit-seconds", type=float, default=LIMIT_SECONDS)
    given = parser.parse_args(arguments)
    check_card(given.gpu, given.device)
    if given.out.exists() and not given.resume:
        print(f"{given.out} exists: add --resume to go on, or name another file.", file=sys.stderr)
        return 2
    chosen = [case for case in cases(given.gpu) if given.only in case.name]
    measure(
        chosen, given.out, gpu=given.gpu, device=given.device, limit_seconds=given.limit_seconds
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
