"""What the real runs of TRL's trainers and of transformers' Trainer on a CPU have in common.

Each begins with a checkpoint on disk and makes its steps by ``train``, over gloo where a case is
sharded (DDP in two processes, FSDP2 in one), and torch's allocator reports every byte of the last.
"""

from __future__ import annotations

import gc
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers

from accuracy.real_runs import Peaks
from accuracy.trl_cases import Case
from accuracy.trl_packages import packages
from accuracy.trl_ranks import group
from planner.launch.huggingface.run import batches
from planner.launch.huggingface.run.phases import Mark
from planner.trial.run.allocations import Marks, peak_bytes
from planner.trial.run.collectives import settled

SHARDED_RUNS = 5
SHAPE = ("prompt_tokens", "response_tokens", "micro_batch_size", "batch_shape")
"""What batches are made of; everything else that decides a real run is the trainer's arguments."""


def saved(case: Case, dtype: str, folder: Path) -> Path:
    """A checkpoint in the other format than it is loaded in, so that loading makes every weight.

    In its own, a CPU's weights are parts of one buffer as long as the file, which no card has.
    """
    config = transformers.AutoConfig.for_model(**case.config)
    other = torch.bfloat16 if dtype == "float32" else torch.float32
    model: Any = transformers.AutoModelForCausalLM.from_config(config, dtype=other)
    model.save_pretrained(folder)
    return folder


def two_steps(trainer: Any, marks: Marks, phases: Callable[[Any, Mark, Any], Any]) -> Any:
    """All steps that a trainer was made for, the last one marked; returns the trainer."""
    steps, last = iter(range(trainer.args.max_steps)), marks.last_step()

    def begins() -> None:
        if next(steps) == trainer.args.max_steps - 1:
            last.__enter__()

    phases(trainer, marks.phase, begins)
    gc.collect()
    trainer.train()
    last.__exit__(None, None, None)
    return trainer


def peaks_in_group(
    case: Case,
    rank: int,
    store: Path | None,
    dtype: str,
    made: Callable[[Path, Path], Any],
    phases: Callable[[Any, Mark, Any], Any],
    seams: Iterable[AbstractContextManager[Any]],
) -> Peaks:
    """Most live bytes by phase of a case's last step, in this process among the case's.

    Args:
        case: what is trained.
        rank: this process; the first starts the others.
        store: where they meet; in the run's own folder unless told.
        dtype: in which the model is loaded.
        made: the trainer with its batches; given an empty folder and the checkpoint's.
        phases: marks the trainer's phases.
        seams: what is ours in its place.
    """
    # Weights that other threads load are no event of this one's.
    loading = patch.dict(os.environ, {"HF_DEACTIVATE_ASYNC_LOAD": "1"})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as name, loading:
        warnings.simplefilter("ignore")
        folder = Path(name)
        checkpoint = saved(case, dtype, folder / "model")
        ranks = group(case, folder, rank, store or folder / "store")
        with torch.backends.mkldnn.flags(enabled=False), ExitStack() as stack:
            for each in (*seams, ranks, settled()):
                stack.enter_context(each)
            return peak_bytes(lambda marks: two_steps(made(folder, checkpoint), marks, phases))


def least_peaks(case: Case, real_peaks: Callable[[Case], Peaks]) -> Peaks:
    """A case's real run; of a sharded case the least of some.

    Gloo's threads now and then free what nobody hears of, which only ever adds to what was seen.
    """
    runs = 1 if case.plan.sharding == "none" else SHARDED_RUNS
    with packages(case.plan):
        found = (real_peaks(case) for _ in range(runs))
        return min(found, key=lambda peaks: sum(peaks.values()))


RAN = (batches, saved, two_steps, peaks_in_group, group)
"""Code of ours that decides what a real run gives."""
