"""TRL's trainers for real on a CPU, beside dry runs of them; writes what both say.

``python -m accuracy.trl_runs --out accuracy/measured/trl-vs-cpu.json`` runs every case of
:mod:`accuracy.trl_cases`. The real side is TRL's own: its constructor loads a checkpoint from disk,
its ``train`` runs two steps, over gloo where a case is sharded (DDP in two processes, FSDP2 in
one), and torch's allocator reports every byte. Only responses come with the
batch. Beside it stand the dry run of the same plan with the CPU's branches, and, for a model of the
catalog, the dry run that the closed form is compared with. What ran for real and has not changed is
kept (``--anew`` runs everything). Each run has a process of its own: what other threads free of an
earlier one unheard would be counted in it. Takes ten minutes on one core, and no network.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import datasets
import torch
import transformers

from accuracy.trl_cases import CASES, Case
from accuracy.trl_packages import packages
from accuracy.trl_packages import told as packages_told
from accuracy.trl_ranks import group
from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs import curve
from planner.dryrun.run.execute import dry_run
from planner.dryrun.run.sharded import two_memories
from planner.frameworks.trl import FRAMEWORK
from planner.frameworks.trl.accelerate import accelerate_files
from planner.frameworks.trl.own_step import arguments
from planner.frameworks.trl.run import made, phases, seams, step
from planner.frameworks.trl.run import offloading as offloading_seams
from planner.frameworks.trl.run.made import STEPS, fed, trainer_of
from planner.frameworks.trl.run.offloading import offloading
from planner.frameworks.trl.run.phases import Phases
from planner.frameworks.trl.run.ranks import launched
from planner.frameworks.trl.run.seams import engine, kernels
from planner.trial.run import allocations
from planner.trial.run.allocations import Marks, peak_bytes
from planner.trial.run.collectives import settled
from planner.trial.run.prediction import in_one_memory
from planner.trial.run.trial_stage import CopyingStage

LIBRARIES = ("torch", "transformers", "peft", "trl", "accelerate")
SHARDED_RUNS = 5
SHAPE = ("prompt_tokens", "response_tokens", "micro_batch_size", "batch_shape")
"""What batches are made of; everything else that decides a real run is TRL's arguments."""


def dry_peaks(case: Case) -> dict[str, int]:
    """Most live bytes by phase of TRL's step on tensors without data, with the CPU's branches."""
    log = in_one_memory(step.execute(case.plan, {"policy": case.config}, "cpu", case.head))
    return {peak.phase: peak.total_bytes for peak in curve.peaks(log)}


def whole_peaks(case: Case) -> dict[str, int]:
    """The same for a model of the catalog, as on its card."""
    log = dry_run(case.whole, configs_of(case.whole), code=FRAMEWORK.name)
    return {peak.phase: peak.total_bytes for peak in curve.peaks(log)}


def real_peaks(case: Case, rank: int = 0, store: Path | None = None) -> dict[str, int]:
    """The same of a real run, as torch's allocator saw it; of a sharded one this process's.

    With the GPU's head its kernels compute nothing, and everything around them does. The checkpoint
    is in the other format, so that loading makes every weight: in its own, a CPU's weights are
    parts of one buffer as long as the file, which no card has.
    """
    plan = case.plan
    # Weights that other threads load are no event of this one's.
    loading = patch.dict(os.environ, {"HF_DEACTIVATE_ASYNC_LOAD": "1"})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as name, loading, engine():
        warnings.simplefilter("ignore")
        folder = Path(name)
        settings = transformers.AutoConfig.for_model(**case.config)
        other = torch.bfloat16 if arguments(plan)["dtype"] == "float32" else torch.float32
        model = transformers.AutoModelForCausalLM.from_config(settings, dtype=other)
        model.save_pretrained(folder / "model")
        del model

        def two_steps(marks: Marks) -> Any:
            trainer = trainer_of(plan, folder, str(folder / "model"))
            fed(trainer, [plan])
            steps = iter(range(STEPS))
            last = marks.last_step()

            def begins() -> None:
                if next(steps) == STEPS - 1:
                    last.__enter__()

            Phases(trainer, marks.phase, begins)
            gc.collect()
            trainer.train()
            last.__exit__(None, None, None)
            return trainer

        on_gpu = kernels() if case.head == "gpu" else nullcontext()
        ranks = group(case, folder, rank, store or folder / "store")
        away = offloading(plan, CopyingStage("cpu"))
        with torch.backends.mkldnn.flags(enabled=False), on_gpu, ranks, away, settled():
            return peak_bytes(two_steps)


def least_peaks(case: Case) -> dict[str, int]:
    """:func:`real_peaks`, of a sharded case the least of some runs.

    Gloo's threads now and then free what nobody hears of, which only ever adds to what was seen.
    """
    runs = 1 if case.plan.sharding == "none" else SHARDED_RUNS
    return min((real_peaks(case) for _ in range(runs)), key=lambda peaks: sum(peaks.values()))


def key(case: Case) -> str:
    """A hash of all that decides a case's real run: our own code, TRL's arguments, versions."""
    plan = case.plan.model_dump()
    told = [
        *(_sources(), *_further(case), {name: version(name) for name in LIBRARIES}),
        *(case.config, case.head),
        *(arguments(case.plan), {name: plan[name] for name in SHAPE}),
        *(file.text for file in accelerate_files(case.plan)),
        *packages_told(case.plan),
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


@cache
def _sources() -> list[str]:
    ran = (made, phases, allocations, real_peaks, engine, kernels, seams._Launched, seams._in_lists)
    return [_code(one) for one in (*ran, group, launched)]


def _further(case: Case) -> list[str]:
    """What runs of ours where a case asks for it."""
    away = case.plan.activation_offload or case.plan.offload != "none"
    return [_code(one) for one in (offloading_seams, two_memories, CopyingStage) if away]


def _code(one: Any) -> str:
    """Without comments, which run nowhere."""
    return ast.unparse(ast.parse(inspect.getsource(inspect.unwrap(one))))


def measured(case: Case, kept: dict[str, Any]) -> dict[str, Any]:
    """A case's row; what is ``kept`` of its real run stays if it would be the same."""
    now = key(case)
    real = kept["real_bytes"] if kept.get("key") == now else apart(case)
    dry = dry_peaks(case)
    if list(real) != list(dry):
        raise ValueError(f"{case}: phases {list(real)} in the real run, {list(dry)} in the dry one")
    row = {"name": case.name, "key": now, "real_bytes": real, "dry_run_bytes": dry}
    return {**row, "whole_bytes": whole_peaks(case)}


def apart(case: Case) -> dict[str, int]:
    """:func:`least_peaks` of a case, in a process of its own."""
    command = [sys.executable, "-m", "accuracy.trl_runs", "--one", case.name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(given: Sequence[str] | None = None) -> int:
    """Runs every case and writes what was found."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.trl_runs", description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--one", default="", metavar="NAME", help="run this case, print its bytes")
    parser.add_argument("--anew", action="store_true", help="run everything, whatever is kept")
    told = parser.parse_args(given)
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    # Every run collects garbage; libraries' own objects need not be looked at each time.
    gc.collect()
    gc.freeze()
    if told.one:
        (case,) = (case for case in CASES if case.name == told.one)
        with packages(case.plan):
            print(json.dumps(least_peaks(case)))
        return 0
    if told.out is None:
        parser.error("give --out, or --one")
    kept: dict[str, Any] = {}
    if told.out.exists() and not told.anew:
        rows = json.loads(told.out.read_text("utf-8"))["cases"]
        kept = {row["name"]: row for row in rows}
    found = []
    for case in CASES:
        found.append(measured(case, kept.get(case.name, {})))
        real, dry = found[-1]["real_bytes"], found[-1]["dry_run_bytes"]
        worst = max((dry[phase] / real[phase] - 1 for phase in real), key=abs)
        print(f"{100 * worst:+.4f} %  {case}", flush=True)
    versions = {name: version(name) for name in LIBRARIES}
    stored = {"versions": versions, "cases": found}
    told.out.write_text(json.dumps(stored, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
