"""verl's engines for real on a CPU, beside dry runs of them; writes what both say.

``python -m accuracy.verl_runs --out accuracy/measured/verl-vs-cpu.json`` runs every case of
:mod:`accuracy.verl_cases`. The real side is verl's own: its engine loads a checkpoint from disk,
shards it by FSDP2 over gloo, cuts each batch and runs two steps, and torch's allocator reports
every byte. Only data and its order are ours. Takes fifteen minutes on one core, and no network.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers

from accuracy.real_runs import Peaks, RealRuns, code, digest, peaks_of
from accuracy.trl_packages import flash
from accuracy.verl_cases import CASES, Case
from planner.dryrun.run.world import On
from planner.frameworks.verl.overrides import overrides
from planner.frameworks.verl.run import batches, kernels, made, seams, step, steps
from planner.frameworks.verl.run.batches import batch
from planner.frameworks.verl.run.made import settings_of
from planner.frameworks.verl.run.seams import without_gpu
from planner.frameworks.verl.run.steps import Steps, quiet
from planner.plan import Plan
from planner.setup.setup import setup_of
from planner.setup.workload import kernel_of
from planner.trial.run import allocations
from planner.trial.run.allocations import Marks, peak_bytes
from planner.trial.run.collectives import settled


def dry_peaks(case: Case, head: On = "gpu") -> Peaks:
    """Most live bytes by phase of verl's step on tensors without data, on a CPU."""
    return peaks_of(step.execute(case.plan, case.configs, "cpu", head))


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
        flash() if _flash(plan) else nullcontext(),
        process_group(),
        quiet(),
    ):
        warnings.simplefilter("ignore")
        config = settings_of(plan, Path(name), case.configs)
        _checkpoints(Path(name), case)
        roles = [model.role for model in setup_of(plan).models]
        batches = {training: batch(plan, training=training) for training in (False, True)}

        def two_steps(marks: Marks) -> Any:
            engines = {role: made.made(role, config) for role in roles}
            ran = Steps(plan, engines, lambda training: batches[training].copy(), marks.phase)
            for index in range(step.STEPS):
                gc.collect()  # circles are found whenever the collector happens to look
                if index == step.STEPS - 1:
                    with marks.last_step():
                        ran.step()
                else:
                    ran.step()
            return engines

        with torch.backends.mkldnn.flags(enabled=False), settled():
            return peak_bytes(two_steps)


def _flash(plan: Plan) -> bool:
    """Whether any model runs by flash-attn, as every critic of verl's does; a CPU has none."""
    return any(kernel_of(model.attention) == "flash" for model in setup_of(plan).models)


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


def key(case: Case) -> str:
    """A hash of all that decides a case's real run: our own code, verl's settings, versions."""
    plan = case.plan
    return digest(
        [
            *(_sources(), *([code(flash)] if _flash(plan) else [])),
            *({name: version(name) for name in LIBRARIES}, case.config, overrides(plan)),
            *(plan.length_distribution, plan.kl, plan.batch_shape),
        ]
    )


@cache
def _sources() -> list[str]:
    ran = (batches, made, steps, kernels, allocations, seams.Platform, seams.without_gpu)
    own = (seams._patches, real_peaks, process_group, _flash, _checkpoints)
    return [code(one) for one in (*ran, *own)]


LIBRARIES = ("torch", "transformers", "peft", "verl", "tensordict")
RUNS = RealRuns(
    module="accuracy.verl_runs",
    told=__doc__ or "",
    cases=CASES,
    libraries=LIBRARIES,
    key=key,
    real=real_peaks,
    dry=dry_peaks,
)


if __name__ == "__main__":
    sys.exit(RUNS.main())
