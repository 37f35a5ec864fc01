"""Measures this project's predictions on a real GPU, in one command.

``python -m accuracy.gpu --gpu h200-141gb --out accuracy/measured/h200-141gb.json`` runs two real
steps of every case of :mod:`accuracy.gpu_cases` on the local card, the product's own steps with
random weights, each in a process of its own, and writes beside each other what the allocator and
the driver counted in every phase and what the estimate and the dry run say; first the constants
that nobody has measured for the card: CUDA context and cuBLAS workspaces. The file is written anew
after every case; ``--resume`` goes on where a run was stopped. Running out of memory, an error and
a crash are results. Needs the test requirements and a CUDA build of PyTorch; downloads nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from accuracy.gpu_cases import Case, cases
from planner import catalog
from planner.dryrun.ask.answer import answer
from planner.dryrun.run import worker
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan

LEVELS = ("requested_bytes", "allocated_bytes", "reserved_bytes", "device_bytes")


@dataclass(frozen=True, slots=True)
class Place:
    """Where cases run, and what reads their memory (a class, by its full name)."""

    device: str = "cuda"
    meter: str = "planner.trial.run.meter.CudaMeter"
    limit_seconds: float = 1200.0


def measure(found: Iterable[Case], out: Path, place: Place, head: dict[str, Any]) -> dict[str, Any]:
    """Run every case that ``out`` has no result of, and write the file after each.

    Args:
        found: what to run.
        out: JSON file; what it holds is kept.
        place: where.
        head: what stands at the file's beginning.
    """
    data = json.loads(out.read_text("utf-8")) if out.exists() else {**head, "cases": []}
    done = {row["name"] for row in data["cases"]}
    for case in found:
        if case.name in done:
            continue
        row: dict[str, Any] = {
            "name": case.name,
            "plan": case.plan.model_dump(),
            "cap_bytes": case.cap_bytes,
            "predicted": predicted(case.plan),
            "others_bytes": used_by_others(place),
            "measured": run(case, place),
        }
        data["cases"].append(row)
        _write(out, data)
        failed = row["measured"].get("failed")
        said = f"{failed['kind']} in {failed['phase']}" if failed else "measured"
        print(f"{len(data['cases'])}: {case.name}: {said}", flush=True)
    return data


def _write(out: Path, data: dict[str, Any]) -> None:
    """One case a line; a stop while writing leaves the file as it was."""
    head = {key: value for key, value in data.items() if key != "cases"}
    rows = ",\n".join(json.dumps(row) for row in data["cases"])
    fresh = out.with_suffix(".part")
    fresh.write_text(f'{json.dumps(head)[:-1]}, "cases": [\n{rows}\n]}}\n', "utf-8")
    fresh.replace(out)


def run(case: Case, place: Place) -> dict[str, Any]:
    """The case's answer from a fresh process."""
    asked = {
        "plan": case.plan.model_dump(),
        "cap_bytes": case.cap_bytes,
        "device": place.device,
        "meter": place.meter,
    }
    return _asked(asked, place, expandable=case.plan.expandable_segments)


def _asked(request: dict[str, Any], place: Place, *, expandable: bool = False) -> dict[str, Any]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (os.getcwd(), *sys.path))),
        "HF_HUB_OFFLINE": "1",
        "PYTORCH_ALLOC_CONF": f"expandable_segments:{expandable}",
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        try:
            process = subprocess.run(
                [sys.executable, "-m", "accuracy.gpu_case", str(file)],
                input=json.dumps(request),
                env=environment,
                capture_output=True,
                text=True,
                timeout=place.limit_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            message = f"took more than {place.limit_seconds:.0f} seconds"
            return {"failed": {"kind": "timeout", "phase": "unknown", "message": message}}
        if not file.exists():
            last = (process.stderr.strip().splitlines() or ["no message"])[-1][:400]
            message = f"exit status {process.returncode}: {last}"
            return {"failed": {"kind": "crash", "phase": "unknown", "message": message}}
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
        return found


def predicted(plan: Plan) -> dict[str, Any]:
    """The four totals of every phase, by the estimate and by the dry run."""
    found: dict[str, Any] = {"estimate": totals(estimate(plan))}
    try:
        told = worker.execute({"plan": plan.model_dump()})
    except Exception as error:  # a failing dry run must not end the measurements
        told = {"error": f"{type(error).__name__}: {error}"}
    if "error" in told:
        return {**found, "dry run": {}, "dry run's error": told["error"]}
    dry = answer(plan, told["result"])
    executed = {phase["phase"] for phase in dry.phases}
    of_dry = {name: sums for name, sums in totals(dry.footprint).items() if name in executed}
    return {**found, "dry run": of_dry, "dry run's notes": list(dry.notes)}


def totals(footprint: Footprint) -> dict[str, dict[str, Any]]:
    """Bytes and seconds of every phase of the trainer's GPU."""
    return {
        phase.name: {
            **{level: getattr(phase, level) for level in LEVELS},
            "seconds": phase.seconds,
        }
        for phase in footprint.phases
        if phase.rank == "trainer"
    }


def used_by_others(place: Place) -> int | None:
    """Bytes in use on the card before a case starts, by the driver; None where it does not say."""
    if place.device != "cuda":
        return None
    told = _nvidia_smi("memory.used")
    return int(told) * 2**20 if told and told.isdigit() else None


def _nvidia_smi(field: str) -> str | None:
    card = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "-i", card]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the card's constants and every case."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.gpu", description=__doc__)
    parser.add_argument("--gpu", required=True, help="the card's key in the catalog")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--resume", action="store_true", help="keep the results in the file")
    parser.add_argument("--only", default="", help="run cases whose name has this in it")
    parser.add_argument("--limit-seconds", type=float, default=Place().limit_seconds)
    given = parser.parse_args(arguments)
    catalog.gpu(given.gpu)
    if given.out.exists() and not given.resume:
        print(f"{given.out} exists: add --resume to go on, or name another file.", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("No CUDA device is here: run this on the card that --gpu names.", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    place = Place(limit_seconds=given.limit_seconds)
    chosen = [case for case in cases(given.gpu) if given.only in case.name]
    head: dict[str, Any] = {"gpu": given.gpu}
    if not given.out.exists():
        driver = _nvidia_smi("driver_version")
        head |= {"driver": driver, "constants": _asked({"constants": True}, place)}
    measure(chosen, given.out, place, head)
    return 0


if __name__ == "__main__":
    sys.exit(main())
