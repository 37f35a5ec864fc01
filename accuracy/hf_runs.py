"""transformers' Trainer for real on a CPU, beside dry runs of it; writes what both say.

``python -m accuracy.hf_runs --out accuracy/measured/trainer-vs-cpu.json`` runs every case of
:mod:`accuracy.hf_cases`, as :mod:`accuracy.trl_runs` does TRL's: a checkpoint from disk, ``train``
of two steps, over gloo where a case is sharded, and every byte by torch's own allocator. Takes
three minutes on one core, and no network.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import warnings
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers

from accuracy.hf_cases import CASES
from accuracy.real_runs import RealRuns, code, digest
from accuracy.trl_cases import Case
from accuracy.trl_packages import packages, told
from accuracy.trl_ranks import group
from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs import curve
from planner.dryrun.run.execute import dry_run
from planner.frameworks.hf_trainer import FRAMEWORK
from planner.frameworks.hf_trainer.run import made, step
from planner.frameworks.hf_trainer.run.made import STEPS, Batches, trainer_of
from planner.frameworks.hf_trainer.settings import settings
from planner.launch.huggingface.accelerate import accelerate_files
from planner.launch.huggingface.precision import loaded_dtype
from planner.launch.huggingface.run import offloading, phases, ranks, seams
from planner.launch.huggingface.run.phases import Phases
from planner.launch.words import ATTENTION
from planner.trial.run import allocations
from planner.trial.run.allocations import Marks, peak_bytes
from planner.trial.run.collectives import settled
from planner.trial.run.prediction import in_one_memory
from planner.trial.run.trial_stage import CopyingStage

LIBRARIES = ("torch", "transformers", "peft", "accelerate")
SHARDED_RUNS = 5
SHAPE = ("prompt_tokens", "response_tokens", "micro_batch_size", "batch_shape")
"""What batches are made of; everything else that decides a real run is the Trainer's arguments."""


def dry_peaks(case: Case) -> dict[str, int]:
    """Most live bytes by phase on tensors without data, with the CPU's branches."""
    log = in_one_memory(step.execute(case.plan, {"policy": case.config}, "cpu", case.head))
    return {peak.phase: peak.total_bytes for peak in curve.peaks(log)}


def whole_peaks(case: Case) -> dict[str, int]:
    """The same for a model of the catalog, as on its card."""
    log = dry_run(case.whole, configs_of(case.whole), code=FRAMEWORK.name)
    return {peak.phase: peak.total_bytes for peak in curve.peaks(log)}


def real_peaks(case: Case, rank: int = 0, store: Path | None = None) -> dict[str, int]:
    """The same of a real run, as torch's allocator saw it; of a sharded one this process's.

    The checkpoint is in the other format, so that loading makes every weight.
    """
    plan, dtype = case.plan, loaded_dtype(case.plan)
    # Weights that other threads load are no event of this one's.
    loading = patch.dict(os.environ, {"HF_DEACTIVATE_ASYNC_LOAD": "1"})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as name, loading:
        warnings.simplefilter("ignore")
        folder = Path(name)
        config = transformers.AutoConfig.for_model(**case.config)
        other = torch.bfloat16 if dtype == "float32" else torch.float32
        model: Any = transformers.AutoModelForCausalLM.from_config(config, dtype=other)
        model.save_pretrained(folder / "model")
        del model

        def load() -> Any:
            return transformers.AutoModelForCausalLM.from_pretrained(
                folder / "model", dtype=dtype, attn_implementation=ATTENTION[plan.attention]
            )

        def two_steps(marks: Marks) -> Any:
            trainer = trainer_of(plan, folder, load)
            Batches(trainer, [plan], lambda value: value)
            steps = iter(range(STEPS))
            last = marks.last_step()

            def begins() -> None:
                gc.collect()  # of the preparation, which lies in circles
                if next(steps) == STEPS - 1:
                    last.__enter__()

            Phases(trainer, marks.phase, begins)
            gc.collect()
            trainer.train()
            last.__exit__(None, None, None)
            return trainer

        on_gpu = seams.in_lists() if case.head == "gpu" else nullcontext()
        around = group(case, folder, rank, store or folder / "store")
        away = offloading.offloading(plan, CopyingStage("cpu"))
        with torch.backends.mkldnn.flags(enabled=False), on_gpu, around, away, settled():
            return peak_bytes(two_steps)


def least_peaks(case: Case) -> dict[str, int]:
    """:func:`real_peaks`, of a sharded case the least of some runs, as of TRL's."""
    runs = 1 if case.plan.sharding == "none" else SHARDED_RUNS
    with packages(case.plan):
        found = (real_peaks(case) for _ in range(runs))
        return min(found, key=lambda peaks: sum(peaks.values()))


def key(case: Case) -> str:
    """A hash of all that decides a case's real run: our own code, its arguments, versions."""
    plan = case.plan.model_dump()
    away = case.plan.activation_offload or case.plan.offload != "none"
    ran = (made, phases, allocations, real_peaks, seams.in_lists, group, ranks.launched)
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
    real=least_peaks,
    dry=dry_peaks,
    whole=whole_peaks,
)


def main() -> int:
    """Runs every case and writes what was found."""
    transformers.utils.logging.disable_progress_bar()
    return RUNS.main()


if __name__ == "__main__":
    sys.exit(main())
