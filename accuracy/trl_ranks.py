"""Processes of a sharded case of TRL's or the Trainer's, run for real on a CPU over gloo.

``python -m accuracy.trl_ranks NAME RANK STORE`` is what :func:`group` starts for every process but
its own.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from accuracy.trl_cases import Case
from planner.launch.huggingface.processes import training_gpus
from planner.launch.huggingface.run.ranks import launched

ROOT = Path(__file__).parent.parent
ENDED_SECONDS = 60
"""How long the others may take once this one is done."""


@contextmanager
def group(case: Case, folder: Path, rank: int, store: Path) -> Iterator[None]:
    """Inside, a case's processes are there, and accelerate's launcher has started them.

    Args:
        case: unsharded ones have one process and no group.
        folder: of this process.
        rank: this process; the first starts the others.
        store: where they meet.
    """
    plan, count = case.plan, training_gpus(case.plan)
    if plan.sharding == "none":
        yield
        return
    command = [sys.executable, "-m", "accuracy.trl_ranks", case.name]
    others = [
        subprocess.Popen([*command, str(other), str(store)], cwd=ROOT, stderr=subprocess.DEVNULL)
        for other in range(1, count if rank == 0 else 1)
    ]
    try:
        meeting = dist.FileStore(str(store), count)  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=meeting, rank=rank, world_size=count)
        try:
            with launched(plan, folder, torch.device("cpu"), rank):
                yield
            gc.collect()  # DDP goes before what it speaks through
            dist.barrier()
        finally:
            dist.destroy_process_group()
        for other in others:
            other.wait(ENDED_SECONDS)
    finally:
        for other in others:
            other.kill()


def main() -> None:
    """One of the others."""
    from accuracy import hf_runs, trl_runs

    name, rank, store = sys.argv[1:]
    torch.set_num_threads(1)
    (found,) = [
        (runs, case) for runs in (trl_runs, hf_runs) for case in runs.CASES if case.name == name
    ]
    runs, case = found
    runs.real_peaks(case, int(rank), Path(store))


if __name__ == "__main__":
    main()
