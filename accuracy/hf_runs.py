"""transformers' Trainer for real on a CPU, beside dry runs of it; writes what both say.

``python -m accuracy.hf_runs --out accuracy/measured/trainer-vs-cpu.json`` runs every case of
:mod:`accuracy.hf_cases`, as :mod:`accuracy.trl_runs` does TRL's: a checkpoint from disk, ``train``
of two steps, over gloo where a case is sharded, and every byte by torch's own allocator. Takes
three minutes on one core, and no network.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import transformers

from accuracy.hf_cases import CASES
from accuracy.real_runs import Peaks, RealRuns, code, digest, peaks_of
from accuracy.trainer_runs import RAN, SHAPE, least_peaks, peaks_in_group
from accuracy.trl_cases import Case
from accuracy.trl_packages import told
from planner.frameworks.hf_trainer.run import made, step
from planner.frameworks.hf_trainer.run.made import fed, trainer_of
from planner.frameworks.hf_trainer.settings import settings
from planner.launch.huggingface.accelerate import accelerate_files
from planner.launch.huggingface.precision import loaded_dtype
from planner.launch.huggingface.run import offloading, phases, ranks, seams
from planner.launch.huggingface.run.phases import Mark, Phases
from planner.launch.words import ATTENTION
from planner.trial.run import allocations
from planner.trial.run.prediction import in_one_memory
from planner.trial.run.trial_stage import CopyingStage

LIBRARIES = ("torch", "transformers", "peft", "accelerate")


def dry_peaks(case: Case) -> Peaks:
    """Most live bytes by phase on tensors without data, with the CPU's branches."""
    return peaks_of(
        in_one_memory(step.execute(case.plan, {"policy": case.config}, "cpu", case.head))
    )


def real_peaks(case: Case, rank: int = 0, store: Path | None = None) -> Peaks:
    """The same of a real run, as torch's allocator saw it; of a sharded one this process's."""
    plan, dtype = case.plan, loaded_dtype(case.plan)

    def made(folder: Path, checkpoint: Path) -> Any:
        def load() -> Any:
            return transformers.AutoModelForCausalLM.from_pretrained(
                checkpoint, dtype=dtype, attn_implementation=ATTENTION[plan.attention]
            )

        trainer = trainer_of(plan, folder, load)
        fed(trainer, [plan], lambda value: value)
        return trainer

    on_gpu = seams.in_lists() if case.head == "gpu" else nullcontext()
    away = offloading.offloading(plan, CopyingStage("cpu"))
    return peaks_in_group(case, rank, store, dtype, made, _marked, (on_gpu, away))


def _marked(trainer: Any, mark: Mark, begins: Callable[[], None]) -> None:
    def collected() -> None:
        gc.collect()  # of the preparation, which lies in circles
        begins()

    Phases(trainer, mark, collected)


def key(case: Case) -> str:
    """A hash of all that decides a case's real run: our own code, its arguments, versions."""
    plan = case.plan.model_dump()
    away = case.plan.activation_offload or case.plan.offload != "none"
    ran = (made, phases, allocations, real_peaks, _marked, seams.in_lists, *RAN, ranks.launched)
    return digest(
        [
            *(code(one) for one in (*ran, *((offloading, CopyingStage) if away else ()))),
            *({name: version(name) for name in LIBRARIES}, case.config, case.head),
            *(settings(case.plan), {name: plan[name] for name in SHAPE}),
            *(file.text for file in accelerate_files(case.plan)),
            *told(case.plan),
        ]
    )


RUNS = RealRuns(
    module="accuracy.hf_runs",
    told=__doc__ or "",
    cases=CASES,
    libraries=LIBRARIES,
    key=key,
    real=lambda case: least_peaks(case, real_peaks),
    dry=dry_peaks,
)


def main() -> int:
    """Runs every case and writes what was found."""
    transformers.utils.logging.disable_progress_bar()
    return RUNS.main()


if __name__ == "__main__":
    sys.exit(main())
