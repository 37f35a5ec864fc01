"""TRL's trainers for real on a CPU, beside dry runs of them.

The real side is TRL's own: its constructor loads a checkpoint from disk, its ``train`` runs two
steps, and torch's allocator reports every byte. Only responses come with the batch.
"""

from __future__ import annotations

import gc
import os
import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers

from accuracy.trl_cases import Case
from planner.dryrun.logs import curve
from planner.frameworks.trl.run import step
from planner.frameworks.trl.run.made import STEPS, fed, generated, trainer_of
from planner.frameworks.trl.run.phases import Phases
from planner.frameworks.trl.run.seams import engine, kernels
from planner.trial.run.allocations import Marks, peak_bytes


def dry_peaks(case: Case, head: step.Head = "cpu") -> dict[str, int]:
    """Most live bytes by phase of TRL's step on tensors without data, with the CPU's branches."""
    log = step.execute(case.plan, {"policy": case.config}, "cpu", head)
    return {peak.phase: peak.total_bytes for peak in curve.peaks(log)}


def real_peaks(case: Case, head: step.Head = "cpu") -> dict[str, int]:
    """The same of a real run, as torch's allocator saw it.

    With the GPU's head its kernels compute nothing, and everything around them does.
    """
    plan = case.plan
    # Weights that other threads load are no event of this one's.
    loading = patch.dict(os.environ, {"HF_DEACTIVATE_ASYNC_LOAD": "1"})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as name, loading, engine():
        warnings.simplefilter("ignore")
        folder = Path(name)
        settings = transformers.AutoConfig.for_model(**case.config)
        model = transformers.AutoModelForCausalLM.from_config(settings, dtype=torch.float32)
        model.save_pretrained(folder / "model")
        del model

        def two_steps(marks: Marks) -> Any:
            trainer = trainer_of(plan, folder, str(folder / "model"))
            generated(trainer, plan, lambda: None)
            fed(trainer, plan)
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

        on_gpu = kernels() if head == "gpu" else nullcontext()
        with torch.backends.mkldnn.flags(enabled=False), on_gpu:
            return peak_bytes(two_steps)
