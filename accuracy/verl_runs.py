"""verl's engines for real on a CPU, beside dry runs of them.

The real side is verl's own: its engine loads a checkpoint from disk, shards it by FSDP2 over gloo
and runs two steps, and torch's allocator reports every byte. Only data and its order are ours.
"""

from __future__ import annotations

import gc
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers

from planner.frameworks.verl.run.made import batch, made, settings_of
from planner.frameworks.verl.run.seams import without_gpu
from planner.frameworks.verl.run.steps import Steps, quiet
from planner.trial.run.allocations import Marks, peak_bytes

STEPS = 2


@contextmanager
def process_group() -> Iterator[None]:
    """One process, over gloo."""
    import torch.distributed as dist

    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def real_peaks(case: Any) -> dict[str, int]:
    """Most live bytes by phase of a real second step, as torch's allocator saw it."""
    plan = case.plan
    loading = patch.dict(os.environ, {"HF_DEACTIVATE_ASYNC_LOAD": "1"})
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as name,
        loading,
        without_gpu(),
        process_group(),
        quiet(),
    ):
        warnings.simplefilter("ignore")
        config = settings_of(plan, Path(name), {role: case.config for role in ("policy", "critic")})
        _checkpoints(Path(name), case)
        batches = {training: batch(plan, training=training) for training in (False, True)}

        def two_steps(marks: Marks) -> Any:
            engines = {role: made(role, config) for role in case.roles}
            steps = Steps(plan, engines, lambda training: batches[training].copy(), marks.phase)
            gc.collect()
            for index in range(STEPS):
                if index == STEPS - 1:
                    with marks.last_step():
                        steps.step()
                else:
                    steps.step()
            return engines

        with torch.backends.mkldnn.flags(enabled=False):
            return peak_bytes(two_steps)


def _checkpoints(folder: Path, case: Any) -> None:
    for role, kind in (
        ("policy", transformers.AutoModelForCausalLM),
        ("critic", transformers.AutoModelForTokenClassification),
    ):
        if (folder / role).exists():
            settings = transformers.AutoConfig.for_model(**case.config)
            if role == "critic":
                settings.num_labels = 1
            kind.from_config(settings, dtype=torch.float32).save_pretrained(folder / role)
