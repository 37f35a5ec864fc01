"""The device a trial runs on: its name, its memory, its row in the catalog; and the versions.

Imports torch.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from planner import catalog
from planner.catalog import Gpu
from planner.jobs.host_memory import guarded_bytes, memory_bytes
from planner.jobs.strict import shown
from planner.trial.ask.result import Device, Environment

LIBRARIES = ("transformers", "peft", "safetensors", "vllm", "numpy")
SETTINGS = (
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
)
NEAR = 0.06
"""Share of its memory by which a card may differ from the catalog's row."""


def device_of(name: str, cap_bytes: int | None) -> Device:
    """What is known of ``cpu`` or ``cuda:N``.

    Raises:
        ValueError: when there is no such device here.
    """
    if name == "cpu":
        return Device(
            kind="cpu",
            name=shown(_processor()),
            total_bytes=memory_bytes("MemTotal"),
            cap_bytes=cap_bytes,
        )
    index = int(name.partition(":")[2])
    if not torch.cuda.is_available() or index >= torch.cuda.device_count():
        raise ValueError(
            f"device: there is no {name} here: PyTorch {torch.__version__} sees "
            f"{torch.cuda.device_count() if torch.cuda.is_available() else 0} CUDA devices."
        )
    properties = torch.cuda.get_device_properties(index)
    row = row_of(properties.name, f"{properties.major}.{properties.minor}", properties.total_memory)
    return Device(
        kind="cuda",
        name=shown(properties.name),
        total_bytes=properties.total_memory,
        cap_bytes=cap_bytes,
        gpu="" if row is None else row.key,
    )


def row_of(name: str, capability: str, total_bytes: int) -> Gpu | None:
    """The catalog's card of that capability and memory whose words are most in the name."""
    words = set(re.findall(r"[a-z0-9]+", name.lower()))
    best: tuple[int, Gpu] | None = None
    for gpu in catalog.gpus():
        if gpu.compute_capability != capability or gpu.budget_bytes is None:
            continue
        if abs(gpu.budget_bytes / total_bytes - 1) > NEAR:
            continue
        own = re.findall(r"[a-z0-9]+", gpu.key)
        if own[0] != "rtx" and own[0] not in words:
            continue
        shared = len(words & set(own)) - ("pcie" in own) * ("pcie" not in words)
        if best is None or shared > best[0]:
            best = shared, gpu
    return None if best is None else best[1]


def capacity_bytes(device: Device) -> int | None:
    """What a trial may fill: the cap, or what is there; None where nobody says."""
    there = device.total_bytes if device.kind == "cuda" else guarded_bytes(None)
    known = [size for size in (device.cap_bytes, there) if size is not None]
    return min(known, default=None)


def _processor() -> str:
    name = f"{platform.machine()} processor"
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        name = next(names, name)
    return f"{name}, {os.cpu_count() or 1} cores"


def used_by_others(device: str) -> int | None:
    """Bytes in use on a card before this process touches it; None where the driver is silent."""
    told = nvidia_smi(device, "memory.used")
    return int(told) * 2**20 if told and told.isdigit() else None


def environment(device: str) -> Environment:
    """Versions, driver, platform and settings that change a kernel or the allocator."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    driver = None
    if device != "cpu":
        index = int(device.partition(":")[2])
        versions["cuda"] = str(torch.version.cuda)
        capability = torch.cuda.get_device_capability(index)
        versions["compute capability"] = ".".join(map(str, capability))
        driver = nvidia_smi(device, "driver_version")
    return Environment(
        versions={name: shown(text) for name, text in versions.items()},
        driver=None if driver is None else shown(driver),
        platform=shown(platform.platform()),
        settings={name: shown(os.environ[name]) for name in SETTINGS if name in os.environ},
    )


def nvidia_smi(device: str, field: str) -> str | None:
    """What the driver says of a card, by the name that nvidia-smi has for it; None without one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    index = int(device.partition(":")[2])
    cards = [card for card in visible.split(",") if card]
    card = cards[index] if index < len(cards) else str(index)
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "-i", card]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip()


PROBES, PROBE_SECONDS = 10, 0.01
"""Of a processor's speed: so many, each of about so long."""


def processor_flops_per_second(dtype: torch.dtype, size: int = 384) -> float:
    """What this processor reaches in matrix products, a neighbour's work left out of the count.

    One thread multiplies, timed by its own seconds on a core, and the best of several probes
    stands: whoever else computes meanwhile takes cores away and spoils caches, and neither says
    how fast the processor is. A tenth of a second is enough.
    """
    one = torch.ones(size, size, dtype=dtype)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        one @ one
        probes = [_probe(one) for _ in range(PROBES)]
    finally:
        torch.set_num_threads(threads)
    return best_rate(2.0 * size**3, probes, threads)


def _probe(one: torch.Tensor) -> tuple[int, float]:
    """Products that were done, and this thread's seconds on a core meanwhile."""
    start, done = time.thread_time(), 0
    while time.thread_time() - start < PROBE_SECONDS:
        one @ one
        done += 1
    return done, time.thread_time() - start


def best_rate(flops: float, probes: Iterable[tuple[int, float]], threads: int) -> float:
    """FLOPs a second of all threads, by the probe that was disturbed least.

    Args:
        flops: of one product.
        probes: products, and one thread's seconds for them.
        threads: that share the work of a step.
    """
    return threads * max(flops * done / seconds for done, seconds in probes)
