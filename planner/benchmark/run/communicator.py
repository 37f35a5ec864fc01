"""What NCCL's first communicator takes outside the allocator: two processes, two cards.

``python -m planner.benchmark.run.communicator RANK FILE DEVICE`` is one of them: it meets the other
through a file, and writes its bytes beside it. Imports torch where it measures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

LIMIT_SECONDS = 60.0
ELEMENTS = 2**20
"""Of the fp32 all-reduce that makes the communicator: 4 MiB, as in NVIDIA/nccl issue 964."""
ROOT = Path(__file__).resolve().parents[3]


def communicator_bytes(devices: tuple[str, str]) -> int | None:
    """The larger of what both processes saw added on their device; None where it failed.

    ``devices`` are of one kind; on processors nothing is outside an allocator, which gives 0.
    """
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        module = "planner.benchmark.run.communicator"
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", module, str(rank), meeting, device],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
            )
            for rank, device in enumerate(devices)
        ]
        try:
            if not _ended_well(processes):
                return None
            said = [Path(f"{meeting}-{rank}").read_text("utf-8") for rank in range(2)]
            return max(int(json.loads(one)) for one in said)
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _ended_well(processes: Sequence[subprocess.Popen[bytes]]) -> bool:
    """Whether all of them do, in time; one that fails leaves the other waiting in vain."""
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end:
        states = [process.poll() for process in processes]
        if any(state not in (None, 0) for state in states):
            return False
        if all(state == 0 for state in states):
            return True
        time.sleep(0.05)
    return False


def measure(rank: int, meeting: str, device: str) -> int:
    """This process's bytes outside the allocator after its first all-reduce, less those before."""
    import torch
    import torch.distributed as dist

    used = _reader(device)
    if device != "cpu":
        torch.cuda.set_device(device)
    one = torch.ones(ELEMENTS, device=device)
    before = used()
    dist.init_process_group(
        "gloo" if device == "cpu" else "nccl",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=LIMIT_SECONDS),
    )
    try:
        dist.all_reduce(one)
        return used() - before
    finally:
        dist.destroy_process_group()


def _reader(device: str) -> Callable[[], int]:
    from planner.benchmark.run.constants import CudaMemory

    if device == "cpu":
        return lambda: 0
    memory = CudaMemory(device)
    return lambda: memory.used_bytes() - memory.reserved_bytes()


if __name__ == "__main__":
    found = measure(int(sys.argv[1]), sys.argv[2], sys.argv[3])
    Path(f"{sys.argv[2]}-{sys.argv[1]}").write_text(json.dumps(found), "utf-8")
    os._exit(0)  # threads of a library must not hold the process
