"""What stored trials say of predictions, in small files that an estimate reads. No torch, no SQL.

A file a trial, written when the history takes it and gone when it is deleted there, so that an
estimate neither opens a database nor reads a whole result. What an estimate says of a trial's plan
is kept with the state of the formulas it came from, and found anew once when they have changed.
Of the user's own history only: a database that ``HEADROOM_HISTORY_URL`` names has other writers.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from planner.jobs.storage import data_folder, named, write_whole
from planner.plan import try_plan
from planner.plan.factors import RUNGS
from planner.trial.ask.result import TrialResult
from planner.trial.evidence.calibration import estimated, said_by
from planner.trial.evidence.kind import ErrorKind, error_kind
from planner.trial.evidence.stated_error import Compared, compared, of_trial

READ = 200
"""The newest so many of a method are read."""
PACKAGE = Path(__file__).resolve().parents[2]


def proofs_folder() -> Path:
    """Where they are; nobody has written any where it is missing."""
    return data_folder() / "proofs"


def begin() -> None:
    """Make their folder, so that it is known that they are kept."""
    with suppress(OSError):
        proofs_folder().mkdir(parents=True, exist_ok=True)


def put(result: TrialResult) -> None:
    """Keep what a trial says, if it says anything of device bytes."""
    begin()
    rows = list(of_trial(result))
    if rows:
        with suppress(OSError):  # without room a trial counts less, and nothing else is lost
            _write(
                proofs_folder() / f"{result.id}.{rows[0].method}.json",
                {
                    "gpu": rows[0].gpu,
                    "kind": rows[0].kind,
                    "plan": result.estimated.plan if result.estimated else None,
                    "measured": {row.phase: row.measured_bytes for row in rows},
                    "said": {rung: _device_bytes(said_by(rung, result)) for rung in RUNGS},
                    "formulas": _formulas(),
                },
            )


def drop(identifier: str) -> None:
    """Forget a trial."""
    for path in proofs_folder().glob(f"{identifier}.*.json"):
        path.unlink(missing_ok=True)


def clear() -> None:
    """Forget all of them."""
    shutil.rmtree(proofs_folder(), ignore_errors=True)


def proven(method: str) -> tuple[Compared, ...] | None:
    """Every comparison that the stored trials of a method make; None before any was kept."""
    if not proofs_folder().is_dir():
        return None
    found: list[Compared] = []
    for path in named(proofs_folder(), f".{method}.json")[:READ]:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            found += list(_read(path, method))
    return tuple(found)


def _read(path: Path, method: str) -> Iterator[Compared]:
    data = json.loads(path.read_text("utf-8"))
    if "kind" not in data or data["formulas"] != _formulas():
        # A plan that nobody kept, or that formulas refuse today, is of no kind: it proves nothing.
        plan = try_plan(data["plan"])[0] if data["plan"] else None
        data["kind"] = None if plan is None else error_kind(plan).on(data["gpu"])
        data["said"]["estimate"] = {} if plan is None else _device_bytes(estimated(plan))
        data["formulas"] = _formulas()
        with suppress(OSError):
            _write(path, data)
    if data["kind"] is None:
        return
    kind = ErrorKind(*data["kind"])
    for rung in RUNGS:
        said, measured = data["said"][rung], data["measured"]
        yield from compared(rung, method, kind, data["gpu"], said, measured)


def _device_bytes(phases: Mapping[str, Any]) -> dict[str, int]:
    return {name: phase.device_bytes for name, phase in phases.items() if phase.device_bytes}


def _write(path: Path, data: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(data))


@cache
def _formulas() -> str:
    """What changes when a file of the planner does: how many there are, and the youngest."""
    times = [
        os.stat(os.path.join(place, name)).st_mtime_ns
        for place, _, names in os.walk(PACKAGE)
        if not place.endswith("__pycache__")
        for name in names
    ]
    return f"{len(times)} {max(times)}"
