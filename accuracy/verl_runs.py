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

from accuracy.verl_cases import Case
from planner.dryrun.logs import curve
from planner.dryrun.run.world import On
from planner.frameworks.verl.run import step
from planner.frameworks.verl.run.batches import batch
from planner.frameworks.verl.run.made import made, settings_of
from planner.frameworks.verl.run.seams import without_gpu
from planner.frameworks.verl.run.steps import Steps, quiet
from planner.setup.setup import setup_of
from planner.trial.run.allocations import Marks, peak_bytes
from planner.trial.run.collectives import settled


def dry_peaks(case: Case, head: On = "gpu") -> dict[str, int]:
    """Most live bytes by phase of verl's step on tensors without data, on a CPU."""
    log = step.execute(case.plan, case.configs, "cpu", head)
    return {peak.phase: peak.total_bytes for peak in curve.peaks(log)}


@contextmanager
def process_group() -> Iterator[None]:
    """One process, over gloo."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore

    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def real_peaks(case: Case, head: On = "gpu") -> dict[str, int]:
    """The same of a real second step, as torch's allocator saw it.

    With a GPU's head its kernels compute nothing, and everything around them does.
    """
    plan = case.plan
    loading = patch.dict(os.environ, {"HF_DEACTIVATE_ASYNC_LOAD": "1"})
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as name,
        loading,
        without_gpu(head),
        _attention(),
        process_group(),
        quiet(),
    ):
        warnings.simplefilter("ignore")
        config = settings_of(plan, Path(name), case.configs)
        _checkpoints(Path(name), case)
        roles = [model.role for model in setup_of(plan).models]
        batches = {training: batch(plan, training=training) for training in (False, True)}

        def two_steps(marks: Marks) -> Any:
            engines = {role: made(role, config) for role in roles}
            steps = Steps(plan, engines, lambda training: batches[training].copy(), marks.phase)
            for index in range(step.STEPS):
                gc.collect()  # circles are found whenever the collector happens to look
                if index == step.STEPS - 1:
                    with marks.last_step():
                        steps.step()
                else:
                    steps.step()
            return engines

        with torch.backends.mkldnn.flags(enabled=False), settled():
            return peak_bytes(two_steps)


@contextmanager
def _attention() -> Iterator[None]:
    """Verl asks for flash-attn in every critic; a CPU has none."""
    kind = transformers.AutoModelForTokenClassification
    load = kind.from_pretrained

    def loaded(*args: Any, **kwargs: Any) -> Any:
        return load(*args, **{**kwargs, "attn_implementation": "sdpa"})

    with patch.object(kind, "from_pretrained", loaded):
        yield


def _checkpoints(folder: Path, case: Case) -> None:
    kinds: tuple[tuple[str, Any], ...] = (
        ("policy", transformers.AutoModelForCausalLM),
        ("critic", transformers.AutoModelForTokenClassification),
    )
    for role, kind in kinds:
        if (folder / role).exists():
            settings = transformers.AutoConfig.for_model(**case.config)
            if role == "critic":
                settings.num_labels = 1
            kind.from_config(settings, dtype=torch.float32).save_pretrained(folder / role)


def main() -> None:
    """Print every case, dry run over real run."""
    from accuracy.verl_cases import CASES

    torch.set_num_threads(1)
    for case in CASES:
        real, dry = real_peaks(case), dry_peaks(case)
        apart = ", ".join(f"{phase} {dry[phase] / real[phase] - 1:+.3%}" for phase in real)
        print(f"{case}: {apart}", flush=True)


if __name__ == "__main__":
    main()
