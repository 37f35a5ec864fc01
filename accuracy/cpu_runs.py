"""Real runs on a CPU beside dry runs of the same plans; writes what both say.

``python -m accuracy.cpu_runs --out accuracy/measured/dry-run-vs-cpu.json`` runs every case of
:mod:`accuracy.cpu_cases`: the very functions of ``planner/methods/*/step.py`` on real tensors, two
steps, all rounds, watched by torch's allocator; and the dry run of the plan with the CPU's
branches. Takes two minutes on one core, and no network.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from accuracy.cpu_cases import CASES, Case
from planner.dryrun.logs import curve
from planner.dryrun.run.execute import dry_run
from planner.plan import Plan
from planner.plan.methods import part
from planner.steps import run as runs
from planner.trial.run.allocations import Marks, peak_bytes
from planner.trial.run.prediction import in_one_memory
from planner.trial.run.process_group import sharding
from planner.trial.run.trial_stage import CopyingStage

Configs = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Compared:
    """Peaks in bytes by phase: what the allocator saw, and what the dry run says."""

    case: Case
    real: dict[str, int]
    dry: dict[str, int]

    @property
    def errors(self) -> dict[str, float]:
        """Signed relative error of the dry run by phase."""
        return {phase: self.dry[phase] / live - 1 for phase, live in self.real.items()}


def compared(case: Case) -> Compared:
    """One case, run for real and dry.

    Raises:
        ValueError: when the two do not have the same phases.
    """
    real, dry = real_peaks(case.plan, case.configs), dry_peaks(case.plan, case.configs)
    if list(real) != list(dry):
        raise ValueError(f"{case}: phases {list(real)} in the real run, {list(dry)} in the dry one")
    return Compared(case, real, dry)


def real_peaks(plan: Plan, configs: Configs) -> dict[str, int]:
    """Most live bytes by phase of the second of two real steps, as the allocator saw them."""
    step = part(plan.method, "step", "step")

    with warnings.catch_warnings(), sharding(plan, "cpu") as wrap:
        warnings.simplefilter("ignore")

        def two_steps(marks: Marks) -> runs.Run:
            torch.manual_seed(0)
            stage = CopyingStage("cpu", on_phase=marks.phase)
            run = runs.build(plan, stage, configs, wrap)
            gc.collect()
            runs.send_away(run)
            step(run)
            with marks.last_step():
                step(run)
            return run

        # What oneDNN takes besides depends on the processor's instructions.
        with torch.backends.mkldnn.flags(enabled=False):
            # Garbage of an earlier run, freed in this one, would be taken off its bytes.
            gc.collect()
            return peak_bytes(two_steps)


def dry_peaks(plan: Plan, configs: Configs) -> dict[str, int]:
    """The dry run's, with the CPU's branches; host and device are one memory there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = dry_run(plan, configs, on="cpu")
    return {peak.phase: peak.total_bytes for peak in curve.peaks(in_one_memory(log))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs every case and writes what was found."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.cpu_runs", description=__doc__)
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    # Every run collects garbage; libraries' own objects need not be looked at each time.
    gc.collect()
    gc.freeze()
    rows = []
    for case in CASES:
        found = compared(case)
        rows.append(
            {
                "method": case.method,
                "family": case.family,
                "changes": case.changes,
                "real_bytes": found.real,
                "dry_run_bytes": found.dry,
            }
        )
        print(f"{100 * max(map(abs, found.errors.values())):.4f} %  {case}", flush=True)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps({"versions": versions, "cases": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
