"""Cases of a framework's own code, run for real on a CPU beside dry runs: what is kept of them.

A real run's figures hold as long as what ran would run so today, which a hash says; what has not
changed is kept (``--anew`` runs everything). Each run has a process of its own: what other threads
free of an earlier one unheard would be counted in it.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs import curve
from planner.dryrun.logs.log import Log
from planner.dryrun.run.execute import dry_run
from planner.plan import Plan

Peaks = dict[str, int]
"""Most live bytes by phase."""


def code(one: Any) -> str:
    """Of a function, a class or a module, without comments, which run nowhere."""
    return ast.unparse(ast.parse(inspect.getsource(inspect.unwrap(one))))


def digest(told: Sequence[Any]) -> str:
    """Of all that decides a run."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def peaks_of(log: Log) -> Peaks:
    """Of a dry run's last step."""
    return {peak.phase: peak.total_bytes for peak in curve.peaks(log)}


def whole_peaks(plan: Plan) -> Peaks:
    """Without data by its framework's own code, for a model of the catalog, as on its card."""
    return peaks_of(dry_run(plan, configs_of(plan), code=plan.framework))


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRuns:
    """One framework's cases, and how each of them runs."""

    module: str
    """What ``python -m`` runs."""
    told: str
    """Its help."""
    cases: Sequence[Any]
    libraries: Sequence[str]
    key: Callable[[Any], str]
    real: Callable[[Any], Peaks]
    """In this process, with real tensors."""
    dry: Callable[[Any], Peaks]
    """The same without data, with the CPU's branches."""

    @property
    def versions(self) -> dict[str, str]:
        """Of what ran."""
        return {name: version(name) for name in self.libraries}

    def measured(self, case: Any, kept: dict[str, Any]) -> dict[str, Any]:
        """A case's row; what is ``kept`` of its real run stays if it would be the same."""
        now = self.key(case)
        real = kept["real_bytes"] if kept.get("key") == now else self._apart(case)
        dry = self.dry(case)
        if list(real) != list(dry):
            raise ValueError(f"{case}: phases {list(real)} in the real run, {list(dry)} dry")
        row = {"name": case.name, "key": now, "real_bytes": real, "dry_run_bytes": dry}
        return {**row, "whole_bytes": whole_peaks(case.whole)}

    def _apart(self, case: Any) -> Peaks:
        """The real run, in a process of its own."""
        command = [sys.executable, "-m", self.module, "--one", case.name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found: Peaks = json.loads(done.stdout.splitlines()[-1])
        return found

    def main(self, given: Sequence[str] | None = None) -> int:
        """Runs every case and writes what was found."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.told)
        parser.add_argument("--out", type=Path, help="JSON file to write")
        parser.add_argument("--one", default="", metavar="NAME", help="run it, print its bytes")
        parser.add_argument("--anew", action="store_true", help="run all, whatever is kept")
        told = parser.parse_args(given)
        torch.set_num_threads(1)
        # Every run collects garbage; libraries' own objects need not be looked at each time.
        gc.collect()
        gc.freeze()
        if told.one:
            (case,) = (case for case in self.cases if case.name == told.one)
            print(json.dumps(self.real(case)))
            return 0
        if told.out is None:
            parser.error("give --out, or --one")
        kept: dict[str, Any] = {}
        if told.out.exists() and not told.anew:
            rows = json.loads(told.out.read_text("utf-8"))["cases"]
            kept = {row["name"]: row for row in rows}
        found = []
        for case in self.cases:
            found.append(self.measured(case, kept.get(case.name, {})))
            real, dry = found[-1]["real_bytes"], found[-1]["dry_run_bytes"]
            worst = max((dry[phase] / real[phase] - 1 for phase in real), key=abs)
            print(f"{100 * worst:+.4f} %  {case}", flush=True)
        stored = {"versions": self.versions, "cases": found}
        told.out.write_text(json.dumps(stored, indent=1) + "\n", "utf-8")
        return 0
