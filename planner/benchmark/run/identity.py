"""The device and the versions that a benchmark's figures depend on. Imports torch."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from planner.catalog import Gpu
from planner.catalog.card_benchmark import BenchmarkedDevice, ascii_line
from planner.trial.run.device import device_of, nvidia_smi

VERSIONS = ("python", "torch", "transformers", "cuda")
MEGAHERTZ = 1e6


def versions_of(given: Mapping[str, str]) -> dict[str, str]:
    """Of these versions the ones that count, and cuDNN's and NCCL's."""
    found = {name: ascii_line(given[name]) for name in VERSIONS if name in given}
    cudnn = torch.backends.cudnn.version() if torch.cuda.is_available() else None  # type: ignore[no-untyped-call]
    if cudnn is not None:
        found["cudnn"] = str(cudnn)
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
    return found


def described(device: str, gpu: Gpu | None) -> BenchmarkedDevice:
    """What is known of ``cpu`` or ``cuda:N``, clocks as they are now; the key is of ``gpu``."""
    found = device_of(device, None)
    clocks: dict[str, float | None] = {}
    if device != "cpu":
        clocks = {
            "power_limit_watts": _number(device, "power.limit"),
            "sm_clock_hertz": _number(device, "clocks.sm", MEGAHERTZ),
            "max_sm_clock_hertz": _number(device, "clocks.max.sm", MEGAHERTZ),
        }
    return BenchmarkedDevice(
        kind=found.kind,
        name=ascii_line(found.name),
        gpu=gpu.key if gpu else "",
        compute_capability=gpu.compute_capability if gpu else None,
        total_bytes=found.total_bytes,
        **clocks,
    )


def _number(device: str, field_name: str, unit: float = 1.0) -> float | None:
    told = nvidia_smi(device, field_name)
    try:
        value = float(told or "")
    except ValueError:  # "[N/A]" on cards that have no such reading
        return None
    return value * unit if value > 0 else None
