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


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One published figure; a source that says MB is read as MiB, the larger of the two."""

    size_bytes: int
    what: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Smallest and largest published figure of one device constant."""

    low_bytes: int
    high_bytes: int
    source: str
    date: str
    ignores: str = ""
    observations: tuple[Observation, ...] = ()


def _interval(source: str, ignores: str, *observations: Observation) -> Interval:
    sizes = [observation.size_bytes for observation in observations]
    return Interval(
        low_bytes=min(sizes),
        high_bytes=max(sizes),
        source=source,
        date=READ,
        ignores=ignores,
        observations=observations,
    )


CUDA_CONTEXT = _interval(
    "published observations with lazy module loading, the default since CUDA 11.7",
    "modules that kernels load later (cuDNN, Triton, compiled graphs)",
    Observation(
        size_bytes=287_047_680,
        what="torch 1.13 after one small tensor, CUDA_MODULE_LOADING=LAZY",
        source="https://github.com/pytorch/pytorch/pull/86509",
    ),
    Observation(
        size_bytes=300 * MIB,
        what="about 300 MB, by a PyTorch maintainer",
        source="https://github.com/pytorch/pytorch/issues/107667",
    ),
    Observation(
        size_bytes=400 * MIB,
        what="around 400 MB, by a PyTorch maintainer",
        source="https://github.com/pytorch/pytorch/issues/109888",
    ),
    Observation(
        size_bytes=426 * MIB,
        what="torch 2.10 with CUDA 13.0 on an RTX 6000 Ada",
        source="https://github.com/unslothai/unsloth-zoo/pull/1053",
    ),
    Observation(
        size_bytes=526_133_494,
        what="0.490 GiB on an H100: in use, less what PyTorch held, in an out-of-memory message",
        source="GRADE experiment 4: 79.23 GiB in use, 77.84 GiB allocated, 921.65 MiB reserved",
    ),
    Observation(
        size_bytes=616 * MIB,
        what="a server process that has only pinned host memory, 2026; card not named",
        source="https://github.com/LMCache/LMCache/issues/4019",
    ),
)
"""Driver state and code of one process on one GPU."""

NCCL_FIRST = _interval(
    "published observations of one communicator",
    "the number of channels: buffers grow with it, and all-to-all opens more (3.3 GB on 8 H100)",
    Observation(
        size_bytes=512 * MIB,
        what="a single-rank communicator, NCCL 2.28.9, torch 2.11, B300",
        source="https://github.com/NVIDIA/nccl/issues/2363",
    ),
    Observation(
        size_bytes=544 * MIB,
        what="two A100 with NVLink, after a 4 MB all-reduce",
        source="https://github.com/NVIDIA/nccl/issues/964",
    ),
    Observation(
        size_bytes=688 * MIB,
        what="three or four A100 with NVLink, after a 4 MB all-reduce",
        source="https://github.com/NVIDIA/nccl/issues/964",
    ),
    Observation(
        size_bytes=1638 * MIB,
        what="about 1.6 GB for the first communicator and its all-reduce",
        source="https://github.com/NVIDIA/nccl/issues/864",
    ),
)
"""A process's first communicator."""

NCCL_FURTHER = _interval(
    "published observations; shared when made with ncclCommSplit and splitShare",
    "the number of channels, which the buffers grow with",
    Observation(
        size_bytes=0,
        what="split from another communicator with shared resources",
        source="https://github.com/NVIDIA/nccl/issues/986",
    ),
    Observation(
        size_bytes=688 * MIB,
        what="each further group of more than two A100",
        source="https://github.com/NVIDIA/nccl/issues/964",
    ),
    Observation(
        size_bytes=2253 * MIB,
        what="derived: about 6 GB for three or more less 1.6 GB for the first, over two",
        source="https://github.com/NVIDIA/nccl/issues/864",
    ),
)
"""Each further communicator (tensor parallel, hybrid sharding, a rollout engine)."""

VLLM_OUTSIDE_TORCH = _interval(
    "vLLM's own memory profiling on 80 GB cards: what it counts as non-torch",
    "leftovers of an engine that sleeps, which are in NCCL, CUDA graphs and the context",
    Observation(
        size_bytes=134 * MIB,
        what="0.13 GiB, the least seen in logs",
        source="vLLM logs on 80 GB cards",
    ),
    Observation(
        size_bytes=164 * MIB,
        what="0.16 GiB on an H100 (the context is not counted)",
        source="https://github.com/vllm-project/vllm/pull/12126",
    ),
    Observation(
        size_bytes=1301 * MIB,
        what="1.27 GiB",
        source="https://github.com/vllm-project/vllm/pull/11743",
    ),
    Observation(
        size_bytes=1833 * MIB,
        what="1.79 GiB on an H100, one GPU (the context is counted)",
        source="https://github.com/vllm-project/vllm/pull/10511",
    ),
    Observation(
        size_bytes=3666 * MIB,
        what="3.58 GiB on an H100, tensor parallel over two",
        source="https://github.com/vllm-project/vllm/pull/10511",
    ),
)
"""What the rollout engine's process holds outside its allocator."""

VLLM_CUDA_GRAPHS = _interval(
    "vLLM logs on 80 GB cards",
    "the capture sizes and the model's width",
    Observation(size_bytes=400 * MIB, what="0.39 GiB, GPT-OSS-20B", source="vLLM logs"),
    Observation(
        size_bytes=1536 * MIB,
        what="1.5 GB, Kimi-K2.6, tensor parallel over eight",
        source="vLLM logs",
    ),
)
"""Captured decode graphs; none with ``enforce_eager``."""

ENGINE_RESIDUE = _interval(
    "what is still on the card after a rollout engine went to sleep",
    "growth over many steps (11.6 and 25 GiB were reported as a bug, NeMo-RL issue 2619)",
    Observation(
        size_bytes=534 * MIB,
        what="least graphs (0.39 GiB) plus least memory outside torch (0.13 GiB) in vLLM logs",
        source="vLLM logs on 80 GB cards",
    ),
    Observation(
        size_bytes=4209 * MIB,
        what="4.11 GiB after the first sleep",
        source="https://github.com/NVIDIA-NeMo/RL/issues/2619",
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
