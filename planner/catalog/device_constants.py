"""Device memory that no formula gives: what libraries take outside PyTorch's allocator.

Each is an interval over published observations, since it moves with the driver, the
card and the library's version. A verdict uses the upper end. Read 2026-11-20. A card with
a committed benchmark has what that measured in their place; there is none yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.catalog.gpu_catalog import Gpu
from planner.units import MIB

READ = "2026-11-20"


@dataclass(frozen=True, slots=True)
class Observation:
    """One published figure; a source that says MB is read as MiB, the larger of the two."""

    size_bytes: int
    what: str
    source: str


@dataclass(frozen=True, slots=True)
class Interval:
    """The published figures of one device constant; an estimate takes the largest."""

    source: str
    ignores: str
    observations: tuple[Observation, ...]
    date: str = READ

    @property
    def low_bytes(self) -> int:
        """The smallest figure."""
        return min(seen.size_bytes for seen in self.observations)

    @property
    def high_bytes(self) -> int:
        """The largest figure."""
        return max(seen.size_bytes for seen in self.observations)


CUDA_CONTEXT = Interval(
    "published observations with lazy module loading, the default since CUDA 11.7",
    "modules that kernels load later (cuDNN, Triton, compiled graphs)",
    (
        Observation(
            287_047_680,
            "torch 1.13 after one small tensor, CUDA_MODULE_LOADING=LAZY",
            "https://github.com/pytorch/pytorch/pull/86509",
        ),
        Observation(
            300 * MIB,
            "about 300 MB, by a PyTorch maintainer",
            "https://github.com/pytorch/pytorch/issues/107667",
        ),
        Observation(
            400 * MIB,
            "around 400 MB, by a PyTorch maintainer",
            "https://github.com/pytorch/pytorch/issues/109888",
        ),
        Observation(
            426 * MIB,
            "torch 2.10 with CUDA 13.0 on an RTX 6000 Ada",
            "https://github.com/unslothai/unsloth-zoo/pull/1053",
        ),
        Observation(
            526_133_494,
            "0.490 GiB on an H100: in use, less what PyTorch held, in an out-of-memory message",
            "GRADE experiment 4: 79.23 GiB in use, 77.84 GiB allocated, 921.65 MiB reserved",
        ),
        Observation(
            616 * MIB,
            "a server process that has only pinned host memory, 2026; card not named",
            "https://github.com/LMCache/LMCache/issues/4019",
        ),
    ),
)
"""Driver state and code of one process on one GPU."""

NCCL_FIRST = Interval(
    "published observations of one communicator",
    "the number of channels: buffers grow with it, and all-to-all opens more (3.3 GB on 8 H100)",
    (
        Observation(
            512 * MIB,
            "a single-rank communicator, NCCL 2.28.9, torch 2.11, B300",
            "https://github.com/NVIDIA/nccl/issues/2363",
        ),
        Observation(
            544 * MIB,
            "two A100 with NVLink, after a 4 MB all-reduce",
            "https://github.com/NVIDIA/nccl/issues/964",
        ),
        Observation(
            688 * MIB,
            "three or four A100 with NVLink, after a 4 MB all-reduce",
            "https://github.com/NVIDIA/nccl/issues/964",
        ),
        Observation(
            1638 * MIB,
            "about 1.6 GB for the first communicator and its all-reduce",
            "https://github.com/NVIDIA/nccl/issues/864",
        ),
    ),
)
"""A process's first communicator."""

VLLM_CUDA_GRAPHS = Interval(
    "vLLM logs on 80 GB cards",
    "the capture sizes and the model's width",
    (
        Observation(400 * MIB, "0.39 GiB, GPT-OSS-20B", "vLLM logs"),
        Observation(1536 * MIB, "1.5 GB, Kimi-K2.6, tensor parallel over eight", "vLLM logs"),
    ),
)
"""Captured decode graphs; none with ``enforce_eager``."""

ENGINE_RESIDUE = Interval(
    "what is still on the card after a rollout engine went to sleep",
    "growth over many steps (11.6 and 25 GiB were reported as a bug, NeMo-RL issue 2619)",
    (
        Observation(
            534 * MIB,
            "least graphs (0.39 GiB) plus least memory outside torch (0.13 GiB) in vLLM logs",
            "vLLM logs on 80 GB cards",
        ),
        Observation(
            4209 * MIB,
            "4.11 GiB after the first sleep",
            "https://github.com/NVIDIA-NeMo/RL/issues/2619",
        ),
    ),
)
"""CUDA graphs, communicators and context, which sleep does not give back."""


def context_bytes(gpu: Gpu) -> int:
    """CUDA context of one process: the most that was measured on the card, kernels loaded."""
    own = gpu.constants
    found = (own.context_bytes, own.loaded_bytes) if own else ()
    return max((size for size in found if size), default=CUDA_CONTEXT.high_bytes)


def first_communicator_bytes(gpu: Gpu) -> int:
    """A process's first NCCL communicator."""
    own = gpu.constants.nccl_bytes if gpu.constants else None
    return own or NCCL_FIRST.high_bytes
