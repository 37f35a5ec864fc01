"""Measures this project's predictions on a real GPU, in one command.

``python -m accuracy.gpu --gpu h200-141gb --out accuracy/measured/gpu-h200-141gb.json`` runs three
real steps of every case of :mod:`accuracy.gpu_cases` on the local card, a trial's own steps with
random weights, each in a process of its own, and writes what the allocator and the driver counted
in every phase; first the card's constants: CUDA context and cuBLAS workspaces. The file is written
anew after every case; ``--resume`` goes on where a run was stopped. Running out of memory, an error
and a crash are results. Needs the test requirements and a CUDA build of PyTorch; downloads nothing.
What the dry run says of each case needs no card: ``--predict`` writes it into the file, anywhere.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from accuracy.cards import check_card
from accuracy.gpu_cases import Case, cases
from planner import catalog
from planner.background import Refused
from planner.dryrun.ask.answer import answer
from planner.dryrun.run import worker
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan

LEVELS = ("requested_bytes", "allocated_bytes", "reserved_bytes", "device_bytes")
AHEAD = 4
"""Processes that have imported everything and wait for the card, so that it waits for none."""


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
    left = deque(case for case in found if case.name not in done)
    others = used_by_others(place)
    waiting: deque[tuple[Case, Process]] = deque()
    with contextlib.ExitStack() as open_ones:
        while left or waiting:
            while left and len(waiting) < AHEAD:
                case = left.popleft()
                process = open_ones.enter_context(contextlib.closing(Process.of(case, place)))
                waiting.append((case, process))
            case, process = waiting.popleft()
            start = time.monotonic()
            row: dict[str, Any] = {
                "name": case.name,
                "plan": case.plan.model_dump(),
                "cap_bytes": case.cap_bytes,
                "others_bytes": others,
                "measured": process.answer(),
            }
            data["cases"].append(row)
            _write(out, data)
            failed = row["measured"].get("failed")
            said = f"{failed['kind']} in {failed['phase']}" if failed else "measured"
            took = time.monotonic() - start
            print(f"{len(data['cases'])}: {case.name}: {said}, {took:.0f} s", flush=True)
    return data


def predict(out: Path) -> None:
    """Write what estimate and dry run say beside every case of a file that has no such words."""
    data = json.loads(out.read_text("utf-8"))
    for row in data["cases"]:
        if "predicted" not in row:
            row["predicted"] = predicted(Plan(**row["plan"]))
            _write(out, data)


def _write(out: Path, data: dict[str, Any]) -> None:
    """One case a line; a stop while writing leaves the file as it was."""
    head = {key: value for key, value in data.items() if key != "cases"}
    rows = ",\n".join(json.dumps(row) for row in data["cases"])
    fresh = out.with_suffix(".part")
    fresh.write_text(f'{json.dumps(head)[:-1]}, "cases": [\n{rows}\n]}}\n', "utf-8")
    fresh.replace(out)


class Process:
    """A process that answers one request once it is told to begin."""

    def __init__(
        self, request: dict[str, Any], limit_seconds: float, *, expandable: bool = False
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "answer.json"
        self._errors = Path(self._folder.name) / "stderr.txt"
        self._limit_seconds = limit_seconds
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (os.getcwd(), *sys.path))),
            "HF_HUB_OFFLINE": "1",
            "PYTORCH_ALLOC_CONF": f"expandable_segments:{expandable}",
        }
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "accuracy.gpu_case", str(self._file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                text=True,
                env=environment,
            )
        self._say(json.dumps(request))

    @classmethod
    def of(cls, case: Case, place: Place) -> Process:
        """One that is going to run a case."""
        asked = {
            "plan": case.plan.model_dump(),
            "cap_bytes": case.cap_bytes,
            "device": place.device,
            "meter": place.meter,
        }
        return cls(asked, place.limit_seconds, expandable=case.plan.expandable_segments)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # one that died is told by its status
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What it found, or how it failed."""
        self._say("begin")
        try:
            status = self._process.wait(self._limit_seconds)
        except subprocess.TimeoutExpired:
            message = f"took more than {self._limit_seconds:.0f} seconds"
            return {"failed": {"kind": "timeout", "phase": "unknown", "message": message}}
        if not self._file.exists():
            lines = self._errors.read_text("utf-8", "replace").strip().splitlines()
            message = f"exit status {status}: {(lines or ['no message'])[-1][:400]}"
            return {"failed": {"kind": "crash", "phase": "unknown", "message": message}}
        found: dict[str, Any] = json.loads(self._file.read_text("utf-8"))
        return found

    def close(self) -> None:
        """End it, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._folder.cleanup()


def predicted(plan: Plan) -> dict[str, Any]:
    """The four totals of every phase, by the estimate and by the dry run."""
    found: dict[str, Any] = {"estimate": totals(estimate(plan))}
    try:
        dry = answer(plan, worker.execute({"plan": plan.model_dump()}))
    except Refused as error:
        return {**found, "dry run": {}, "dry run's error": str(error)}
    except Exception as error:  # a failing dry run must not end the measurements
        said = f"{type(error).__name__}: {error}"
        return {**found, "dry run": {}, "dry run's error": said}
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


def constants(place: Place) -> dict[str, Any]:
    """The card's constants, of a process of its own."""
    with contextlib.closing(Process({"constants": True}, place.limit_seconds)) as process:
        return process.answer()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the card's constants and every case."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.gpu", description=__doc__)
    parser.add_argument("--gpu", required=True, help="the card's key in the catalog")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--resume", action="store_true", help="keep the results in the file")
    parser.add_argument("--predict", action="store_true", help="run dry what the file has, no card")
    parser.add_argument("--only", default="", help="run cases whose name has this in it")
    parser.add_argument("--limit-seconds", type=float, default=Place().limit_seconds)
    given = parser.parse_args(arguments)
    catalog.gpu(given.gpu)
    torch.set_num_threads(1)
    if given.predict:
        predict(given.out)
        return 0
    if given.out.exists() and not given.resume:
        print(f"{given.out} exists: add --resume to go on, or name another file.", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("No CUDA device is here: run this on the card that --gpu names.", file=sys.stderr)
        return 2
    check_card(given.gpu, "cuda:0")
    place = Place(limit_seconds=given.limit_seconds)
    chosen = [case for case in cases(given.gpu) if given.only in case.name]
    head: dict[str, Any] = {"gpu": given.gpu}
    if not given.out.exists():
        driver = _nvidia_smi("driver_version")
        head |= {"driver": driver, "constants": constants(place)}
    measure(chosen, given.out, place, head)
    return 0


if __name__ == "__main__":
    sys.exit(main())
