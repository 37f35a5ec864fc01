"""TRL's trainers for real on a CPU, beside dry runs of them; writes what both say.

``python -m accuracy.trl_runs --out accuracy/measured/trl-vs-cpu.json`` runs every case of
:mod:`accuracy.trl_cases`. The real side is TRL's own: its constructor loads a checkpoint from disk,
its ``train`` runs two steps, over gloo where a case is sharded (DDP in two processes, FSDP2 in
one), and torch's allocator reports every byte. Only responses come with the
batch. Beside it stand the dry run of the same plan with the CPU's branches, and, for a model of the
catalog, the dry run that the closed form is compared with. Takes ten minutes on one core, and no
network.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import warnings
from contextlib import nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import datasets
import torch
import transformers

from accuracy.real_runs import RealRuns, code, digest
from accuracy.trl_cases import CASES, Case
from accuracy.trl_packages import packages
from accuracy.trl_packages import told as packages_told
from accuracy.trl_ranks import group
from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs import curve
from planner.dryrun.run.execute import dry_run
from planner.dryrun.run.sharded import two_memories
from planner.frameworks.trl import FRAMEWORK
from planner.frameworks.trl.own_step import arguments
from planner.frameworks.trl.run import made, phases, seams, step
from planner.frameworks.trl.run import offloading as offloading_seams
from planner.frameworks.trl.run.made import STEPS, fed, trainer_of
from planner.frameworks.trl.run.offloading import offloading
from planner.frameworks.trl.run.phases import Phases
from planner.frameworks.trl.run.seams import engine, kernels
from planner.launch.huggingface.accelerate import accelerate_files
from planner.launch.huggingface.run import offloading as offloading_below
from planner.launch.huggingface.run import phases as below
from planner.launch.huggingface.run.ranks import launched
from planner.launch.huggingface.run.seams import in_lists
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
    return digest(
        [
            *(_sources(), *_further(case), {name: version(name) for name in LIBRARIES}),
            *(case.config, case.head),
            *(arguments(case.plan), {name: plan[name] for name in SHAPE}),
            *(file.text for file in accelerate_files(case.plan)),
            *packages_told(case.plan),
        ]
    )


@cache
def _sources() -> list[str]:
    ran = (made, phases, below, allocations, real_peaks, engine, kernels, seams._Launched, in_lists)
    return [code(one) for one in (*ran, group, launched)]


def _further(case: Case) -> list[str]:
    """What runs of ours where a case asks for it."""
    away = case.plan.activation_offload or case.plan.offload != "none"
    seamed = (offloading_seams, offloading_below, two_memories, CopyingStage)
    return [code(one) for one in seamed if away]


def _alone(case: Case) -> dict[str, int]:
    with packages(case.plan):
        return least_peaks(case)


RUNS = RealRuns(
    module="accuracy.trl_runs",
    told=__doc__ or "",
    cases=CASES,
    libraries=LIBRARIES,
    key=key,
    real=_alone,
    dry=dry_peaks,
    whole=whole_peaks,
)


def main() -> int:
    """Runs every case and writes what was found."""
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    return RUNS.main()


if __name__ == "__main__":
    sys.exit(main())
