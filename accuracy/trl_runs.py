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

import sys
from contextlib import nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
import transformers

from accuracy.real_runs import Peaks, RealRuns, code, digest, peaks_of
from accuracy.trainer_runs import RAN, SHAPE, least_peaks, peaks_in_group
from accuracy.trl_cases import CASES, Case
from accuracy.trl_packages import told as packages_told
from planner.dryrun.run.sharded import two_memories
from planner.frameworks.trl.own_step import arguments
from planner.frameworks.trl.run import made, phases, seams, step
from planner.frameworks.trl.run import offloading as offloading_seams
from planner.frameworks.trl.run.made import fed, trainer_of
from planner.frameworks.trl.run.offloading import offloading
from planner.frameworks.trl.run.phases import Phases
from planner.frameworks.trl.run.seams import engine, kernels
from planner.launch.huggingface.accelerate import accelerate_files
from planner.launch.huggingface.run import offloading as offloading_below
from planner.launch.huggingface.run import phases as below
from planner.launch.huggingface.run.ranks import launched
from planner.launch.huggingface.run.seams import in_lists
from planner.trial.run import allocations
from planner.trial.run.prediction import in_one_memory
from planner.trial.run.trial_stage import CopyingStage

LIBRARIES = ("torch", "transformers", "peft", "trl", "accelerate")


def dry_peaks(case: Case) -> Peaks:
    """Most live bytes by phase of TRL's step on tensors without data, with the CPU's branches."""
    return peaks_of(
        in_one_memory(step.execute(case.plan, {"policy": case.config}, "cpu", case.head))
    )


def real_peaks(case: Case, rank: int = 0, store: Path | None = None) -> Peaks:
    """The same of a real run, as torch's allocator saw it; of a sharded one this process's.

    With the GPU's head its kernels compute nothing, and everything around them does.
    """
    plan, dtype = case.plan, str(arguments(case.plan)["dtype"])

    def made(folder: Path, checkpoint: Path) -> Any:
        trainer = trainer_of(plan, folder, str(checkpoint))
        fed(trainer, [plan])
        return trainer

    on_gpu = kernels() if case.head == "gpu" else nullcontext()
    inside = (engine(), on_gpu, offloading(plan, CopyingStage("cpu")))
    return peaks_in_group(case, rank, store, dtype, made, Phases, inside)


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
    return [code(one) for one in (*ran, *RAN, launched)]


def _further(case: Case) -> list[str]:
    """What runs of ours where a case asks for it."""
    away = case.plan.activation_offload or case.plan.offload != "none"
    seamed = (offloading_seams, offloading_below, two_memories, CopyingStage)
    return [code(one) for one in seamed if away]


RUNS = RealRuns(
    module="accuracy.trl_runs",
    told=__doc__ or "",
    cases=CASES,
    libraries=LIBRARIES,
    key=key,
    real=lambda case: least_peaks(case, real_peaks),
    dry=dry_peaks,
)


def main() -> int:
    """Runs every case and writes what was found."""
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    return RUNS.main()


if __name__ == "__main__":
    sys.exit(main())
