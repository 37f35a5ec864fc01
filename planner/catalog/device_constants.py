"""Device memory that no formula gives: what libraries take outside PyTorch's allocator.

Each is an interval over published observations, since it moves with the driver, the
card and the library's version: an estimate takes the middle one, and its bounds are the
least and the most. Read 2026-11-20 and 2026-11-22. A card with a committed benchmark has
what that measured in their place; there is none yet. Published contexts tell no card from
another: A100s 414 to 502 MiB, H100s 502 to 522, Ada's cards 426 to 563, and few say their driver.
What training loads beside its context was measured on two cards (:data:`TRAINING_CODE`).
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import NamedTuple

from planner.catalog.gpu_catalog import Gpu
from planner.numeric import Bounded
from planner.units import GIB, MIB

READ = "2026-11-20"


@dataclass(frozen=True, slots=True)
class Observation:
    """One published figure; a source that says MB is read as MiB, the larger of the two."""

    size_bytes: int
    what: str
    source: str


@dataclass(frozen=True, slots=True)
class Interval:
    """The published figures of one device constant; an estimate takes the middle one."""

    source: str
    ignores: str
    observations: tuple[Observation, ...]
    date: str = READ

    @property
    def low_bytes(self) -> int:
        """The smallest figure."""
        return min(seen.size_bytes for seen in self.observations)

    @property
    def central_bytes(self) -> int:
        """The middle figure, the higher of two."""
        return statistics.median_high(seen.size_bytes for seen in self.observations)

    @property
    def high_bytes(self) -> int:
        """The largest figure."""
        return max(seen.size_bytes for seen in self.observations)

    @property
    def bounded(self) -> Bounded:
        """Least, middle and most."""
        return Bounded(self.low_bytes, self.central_bytes, self.high_bytes)


LLM_D = "https://github.com/llm-d-incubation/llm-d-planner accuracy/results (d3121e0)"
"""Start-up logs of vLLM on H100 80GB, most of version 0.19."""

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
            round(0.49 * GIB),
            "each of seven other ranks' contexts on the first of eight A100 80GB",
            "ms-swift's log of GRPO, Qwen3-8B, 2025-08",
        ),
        Observation(
            round(0.51 * GIB),
            "in use when each of 32 vLLM 0.19 workers starts alone on an H100 80GB",
            LLM_D,
        ),
        Observation(
            414 * MIB,
            "each of three other ranks' contexts on the first of four A100 40GB",
            "https://github.com/awslabs/keys_values/issues/92",
        ),
        Observation(
            516 * MIB,
            "another rank's process on a card of 79.21 GiB",
            "https://github.com/tdrussell/diffusion-pipe/issues/153",
        ),
        Observation(
            round((14.25 - 12.87) * GIB - 912.01 * MIB),
            "A100 40GB: in use, less what PyTorch held, in an out-of-memory message, 2025-01",
            "https://github.com/TianheWu/CoSeR/issues/10",
        ),
        Observation(
            round((17.05 - 15.43 - 1.07) * GIB),
            "the same on an L4, fine-tuning a 7B model, 2025-03",
            "https://github.com/instructlab/instructlab/issues/2666",
        ),
        Observation(
            616 * MIB,
            "a server process that has only pinned host memory, 2026; card not named",
            "https://github.com/LMCache/LMCache/issues/4019",
        ),
    ),
)
"""Driver state and code of one process on one GPU."""

TRAINING_CODE = {"whole": 240 * MIB, "sharded": 310 * MIB}
"""What a process that trains takes outside PyTorch's allocator beyond its bare context.

Modules of the kernels it runs, cuBLAS and cuDNN: measured on an H100 and an H200 alike (driver
580.159.04, torch 2.11.0 with CUDA 13.0), 240 MiB in 28 of 30 runs of every method that do not
shard, 248 in two; 294 to 310 in seven under FSDP2 (accuracy/measured/gpu-*.json)."""
HOPPER = 9
"""First number of those cards' compute capability."""

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

ENGINE_LIBRARIES = Interval(
    "what vLLM finds taken outside PyTorch once its profile run is over, on one GPU",
    "kernels' modules that only some requests load",
    (
        Observation(round(0.14 * GIB), "a small model, 80 GB card, 2026-09", "fma issue 746"),
        Observation(round(0.16 * GIB), "0.9 GiB of weights, 16 GB card, 2026-07", "vLLM logs"),
        Observation(round(0.25 * GIB), "26 models with vLLM 0.19, H100 80GB", LLM_D),
        Observation(round(0.26 * GIB), "18 GiB of weights, RTX PRO 6000, 2026", "vLLM logs"),
        Observation(round(0.46 * GIB), "three Granite models with vLLM 0.19, H100 80GB", LLM_D),
    ),
)
"""Handles and code of an engine's libraries, beside its process's context."""

ENGINE_COMMUNICATORS = Interval(
    "the same where an engine is spread over several GPUs, its communicators included",
    "cards without NVLink, and more than eight GPUs",
    (
        Observation(round(0.54 * GIB), "two H100, vLLM 0.11", LLM_D),
        Observation(round(1.84 * GIB), "four H100, Qwen3-Next-80B-A3B, vLLM 0.10.2", "vLLM logs"),
        Observation(round(2.07 * GIB), "two H100, seven models with vLLM 0.19", LLM_D),
        Observation(round(2.10 * GIB), "eight A100 40GB, DeepSeek-Coder-V2-Lite", "vLLM logs"),
        Observation(round(2.17 * GIB), "four H100, Llama-4-Scout, vLLM 0.19", LLM_D),
    ),
)
"""Handles, code and communicators of an engine over several GPUs."""


ENGINE_ADAPTERS = Observation(
    round(1.39 * GIB),
    "a vision-language model that serves adapters, A100 80GB, vLLM 0.8",
    "vLLM logs, 2025-07",
)
"""The one start-up log of an engine with adapters that says its memory outside PyTorch."""

THREADS = {"7.0": 2048, "7.5": 1024, "8.0": 2048, "8.6": 1536, "8.9": 1536, "12.0": 1536}
"""Threads that a multiprocessor holds at once, by compute capability (CUDA's programming guide)."""


def resident_threads(gpu: Gpu) -> int:
    """Threads that a card holds at once; of a card that nobody described as an A100's."""
    return (gpu.multiprocessors or 108) * THREADS.get(gpu.compute_capability or "", 2048)


def adapter_bytes(gpu: Gpu) -> int:
    """The most that an engine's libraries take more for serving adapters.

    Of what further kernels need, local memory is the largest part that could be: a context has
    it once, for every thread a card holds (NVIDIA, forums.developer.nvidia.com/t/289339). So the
    one log goes by threads.
    """
    more = ENGINE_ADAPTERS.size_bytes - ENGINE_LIBRARIES.central_bytes
    return more * resident_threads(gpu) // (108 * 2048)


class Captured(NamedTuple):
    """What vLLM logged that capturing its graphs took."""

    what: str
    layers: int
    captures: int
    gib: float
    experts: bool = False


GRAPHS_CUT = (
    Captured("Llama-3.1-8B", 32, 102, 0.91),
    Captured("half of it, in a pipeline of two", 16, 102, 0.65),
    Captured("a quarter of it, in a pipeline of four", 8, 102, 0.51),
)
"""One model whole and cut in layers, vLLM 0.19 on H100: a capture costs so much, a layer so much.

Two logs would do; the one between them lies 1 % off the line.
"""

GRAPHS = (
    *GRAPHS_CUT,
    Captured("CodeLlama-7B", 32, 102, 0.89),
    Captured("Qwen2.5-7B", 28, 102, 0.87),
    Captured("Qwen2.5-7B over four GPUs", 28, 102, 0.64),
    Captured("Qwen3-8B", 36, 102, 0.96),
    Captured("Gemma-2-2B", 26, 102, 0.71),
    Captured("Gemma-2-9B", 42, 102, 1.09),
    Captured("Gemma-3-4B", 34, 102, 0.67),
    Captured("Gemma-3-12B", 48, 102, 0.94),
    Captured("Granite-3.1-2B", 40, 102, 0.84),
    Captured("Granite-3.1-8B", 40, 102, 0.98),
    Captured("Mistral-Small-24B", 40, 102, 1.06),
    Captured("Qwen2.5-72B over two GPUs", 80, 102, 1.61),
    Captured("Llama-3.3-70B w8a8 over two GPUs", 80, 102, 1.85),
    Captured("Mixtral-8x7B over two GPUs", 32, 102, 0.93, experts=True),
    Captured("Llama-4-Scout over four GPUs", 48, 102, 1.13, experts=True),
    Captured("Qwen3-30B-A3B", 48, 102, 1.41, experts=True),
    Captured("Qwen1.5-MoE-A2.7B", 24, 102, 1.10, experts=True),
    Captured("DeepSeek-V2-Lite", 27, 102, 1.57, experts=True),
    Captured("gpt-oss-20b", 24, 166, 1.84, experts=True),
    Captured("Qwen3-0.6B, 11 piecewise and 7 full graphs, 2026-06", 28, 18, 0.04),
)
"""Published logs beside :func:`graph_costs`: dense, with many captures, within - 29 and + 9 %."""


def graph_costs() -> tuple[int, int]:
    """Bytes of one captured graph, and of each layer in it."""
    whole, _, quarter = GRAPHS_CUT
    layer = (whole.gib - quarter.gib) * GIB / (whole.layers - quarter.layers) / whole.captures
    return round(quarter.gib * GIB / quarter.captures - quarter.layers * layer), round(layer)


def graph_bounds(experts: bool) -> tuple[int, int]:
    """The least and most that a log says, in thousandths of what its captures and layers say.

    The least of all logs, since one of few captures is far below; the most of models with experts,
    or of those without.
    """
    capture, layer = graph_costs()
    parts = {
        seen: seen.gib * GIB / (seen.captures * (capture + seen.layers * layer)) for seen in GRAPHS
    }
    most = max(part for seen, part in parts.items() if seen.experts == experts)
    return round(1000 * min(parts.values())), round(1000 * most)


ADAPTER_GRAPHS = (1.62, 2.38)
"""GiB of an engine's graphs with adapters alone, and with a second set without them: what
github.com/vllm-project/vllm/pull/25914, since when both are captured, logged of one engine."""


def graph_times(adapters: bool) -> int:
    """Thousandths of what graphs without adapters take."""
    alone, both = ADAPTER_GRAPHS
    return round(1000 * both / (both - alone)) if adapters else 1000


GRAPH_CAPTURE_BYTES, GRAPH_LAYER_BYTES = graph_costs()
GRAPH_BOUNDS = {experts: graph_bounds(experts) for experts in (False, True)}


def context(gpu: Gpu) -> Bounded:
    """CUDA context of one process: what was measured on the card, kernels loaded, or published."""
    own = gpu.constants
    found = [size for size in (own.context_bytes, own.loaded_bytes) if size] if own else []
    return _measured(*found) if found else CUDA_CONTEXT.bounded


def training_code(gpu: Gpu, *, sharded: bool) -> Bounded:
    """What a training process loads beyond its bare context.

    Of cards older than those that were measured nothing is taken: published contexts were read in
    the middle of training on an A100 and an L4 and are no larger than bare ones. They were of
    CUDA 12, so what CUDA 13 takes on a newer card is the most that it may be. A card that nobody
    described is taken for a new one.
    """
    measured = TRAINING_CODE["sharded" if sharded else "whole"]
    own = gpu.constants
    if own is not None and (own.context_bytes or own.loaded_bytes):
        return Bounded(0, 0, 0)  # every kernel was loaded when that was read
    major = (gpu.compute_capability or "").partition(".")[0]
    older = bool(major) and (not major.isdigit() or int(major) < HOPPER)
    return Bounded(0, 0 if older else measured, measured)


def first_communicator(gpu: Gpu) -> Bounded:
    """A process's first NCCL communicator."""
    own = gpu.constants.nccl_bytes if gpu.constants else None
    return _measured(own) if own else NCCL_FIRST.bounded


def _measured(*sizes: int) -> Bounded:
    return Bounded(min(sizes), max(sizes), max(sizes))
