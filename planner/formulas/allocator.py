"""From requested bytes to what the driver sees: rounding, segments, workspaces, context.

The rules of PyTorch's CUDA caching allocator 2.13.0 (c10/cuda/CUDACachingAllocator.cpp,
c10/core/AllocatorConfig.h), applied to each term as if its tensors had equal sizes.
Fragmentation depends on the order of events and comes with the dry run.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from planner.catalog import device_constants
from planner.catalog.gpu_catalog import Gpu
from planner.formulas.formula import Formula
from planner.numeric import Num, ceil_div, maximum
from planner.term import Layout, Term
from planner.units import KIB, MIB

BLOCK = 512
SMALL = 1 * MIB
SMALL_SEGMENT = 2 * MIB
LARGE_FROM = 10 * MIB
LARGE_SEGMENT = 20 * MIB
LARGE_ROUNDING = 2 * MIB

CUBLAS = Formula(
    "cuBLAS workspaces",
    "handles * workspace_bytes",
    category="buffers",
    source="torch 2.13.0 aten/src/ATen/cuda/CublasHandlePool.cpp: 32 MiB on compute capability "
    "9, 10 and 12, else 8.125 MiB; one per thread that multiplies",
    why="Forward and autograd threads each keep a matrix-multiply workspace.",
)

CUDA_CONTEXT = Formula(
    "CUDA context",
    "context_bytes",
    category="device",
    source="catalog/device_constants.py: middle of published observations, or the card's "
    "own by a committed benchmark",
    why="The driver keeps code and state for each process, outside PyTorch's view.",
)

TRAINING_CODE = Formula(
    "code of training's kernels",
    "loaded_bytes",
    category="device",
    source="catalog/device_constants.py: measured on an H100 and an H200 (torch 2.11.0, CUDA 13.0)",
    why="Kernels' modules, cuBLAS and cuDNN are loaded when they are first used, outside "
    "PyTorch's view.",
    ignores="what compiled kernels and an attention package of its own bring",
)

NCCL = Formula(
    "NCCL communicators",
    "communicator_bytes",
    category="device",
    source="catalog/device_constants.py: middle of published observations, or the card's "
    "own by a committed benchmark",
    why="Collectives keep buffers per communicator, outside PyTorch's view.",
)


def context(role: str, gpu: Gpu) -> Term:
    """The CUDA context of one process of a role."""
    size = device_constants.context(gpu)
    return CUDA_CONTEXT(role, context_bytes=size.centre, between=(size.low, size.high))


def training_code(role: str, gpu: Gpu, *, sharded: bool) -> Term:
    """What the kernels of a process that trains load."""
    size = device_constants.training_code(gpu, sharded=sharded)
    return TRAINING_CODE(role, loaded_bytes=size.centre, between=(size.low, size.high))


def cublas_workspace_bytes(compute_capability: str) -> int:
    """Workspace of one cuBLAS handle on one stream, torch 2.13.0.

    A card whose capability is not known gets the larger of the two.
    """
    major = compute_capability.split(".")[0]
    return 32 * MIB if major in ("9", "10", "12", "") else 8 * MIB + 128 * KIB


def held_bytes(term: Term, expandable: bool) -> tuple[Num, Num]:
    """What a term's tensors are allocated, and what their segments leave unused.

    Each tensor is rounded up to blocks of 512 bytes. Tensors up to 1 MiB share 2 MiB
    segments, up to 10 MiB 20 MiB segments, and each larger one gets a segment of its own,
    rounded to 2 MiB. An end of at most 1 MiB is not cut off: it belongs to the tensor before it.
    Expandable segments grow in pages instead and leave no such ends.
    """
    size, tensors = term.bytes, term.tensors
    held = _held_number if type(size) is type(tensors) is int else _held
    return held(size, tensors, term.layout, expandable)


def _held(size: Num, tensors: Num, layout: Layout, expandable: bool) -> tuple[Num, Num]:
    if not layout:
        count = maximum(tensors, 1)
        return _alike(count, _whole(ceil_div(size, count)), expandable)
    parts = [_alike(count, _whole(size * share + 0.5), expandable) for count, share in layout]
    return sum([held for held, _ in parts]), sum([left for _, left in parts])


def _alike(count: Num, each: Num, expandable: bool) -> tuple[Num, Num]:
    """The same of so many tensors of so many bytes each."""
    allocated = count * _blocks(each)
    if expandable:
        return allocated, 0
    stays, left = _ends(each)
    return allocated + count * stays, count * left


# Weights and optimizer state recur in every phase, as terms of the same sizes.
_held_number = lru_cache(maxsize=4096)(_held)


def _whole(value: Num) -> Num:
    """Bytes as whole numbers; measured coefficients give others."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind == "i" else value.astype(np.int64)
    return int(value)


def _blocks(each: Num) -> Num:
    return (each + BLOCK - 1) & -BLOCK


def _ends(each: Num) -> tuple[Num, Num]:
    """What a segment has beyond each such tensor: part of its block, or a block of its own."""
    # Up to the next multiple of a power of two; no division, which is what sweeps wait for.
    alone = -each & (LARGE_ROUNDING - 1)
    if not isinstance(each, np.ndarray):
        end = left = alone
        if each < LARGE_FROM:
            left = LARGE_SEGMENT % each if each > SMALL else 0
            end = left * each // LARGE_SEGMENT
        return (end, 0) if left <= SMALL else (0, end)
    large = each >= LARGE_FROM
    own = alone if large.all() else np.where(large, alone, 0)
    stays = own <= SMALL
    between = ~large & (each > SMALL)
    if between.any():
        few = each[between]
        few_left = LARGE_SEGMENT % few
        own[between] = few_left * few // LARGE_SEGMENT
        stays[between] = few_left <= SMALL
    inside = np.where(stays, own, 0)
    return inside, own - inside


ROUNDING = Formula(
    "rounding to blocks",
    "allocated - requested",
    category="allocator",
    source="c10/cuda/CUDACachingAllocator.cpp kMinBlockSize and should_split, torch 2.13.0",
    why="Every tensor takes whole blocks of 512 bytes, plus the end of its segment if that end is "
    "at most 1 MiB.",
)

SEGMENT_SLACK = Formula(
    "unused ends of segments",
    "slack",
    category="allocator",
    source="c10/core/AllocatorConfig.h: 2 MiB, 20 MiB and 2 MiB-rounded segments, torch 2.13.0",
    why="Segments come from the driver in fixed or rounded sizes that tensors do not fill "
    "completely.",
    ignores="fragmentation, which depends on the order of allocations",
)

FREED_LOGITS = Formula(
    "half-precision logits, freed but cached",
    "item_bytes * tokens * vocab",
    category="allocator",
    source="best fit of c10/cuda/CUDACachingAllocator.cpp, torch 2.13.0; seen in prime-rl's "
    "published SFT baseline (docs/accuracy.md)",
    why="Upcast logits leave a free segment that every later tensor of the loss is too large for.",
)

OTHER_INSTANT = Formula(
    "segments that another instant needs",
    "needed - own",
    category="allocator",
    source="the caching allocator returns nothing to the driver before empty_cache or a failure",
    why="The instant with the most allocated bytes is not always the one with the most reserved "
    "bytes: an instant with fewer allocated bytes can leave more of its segments unused.",
)

DOUBTED = Formula(
    "what another moment may need at most",
    "counted * (most - own)",
    category="allocator",
    source="upper bounds of the phase's other instants",
    why="An instant below the peak can exceed it at its upper bound, so this term adds to the "
    "range only, not to the likely value.",
)

CACHED = Formula(
    "cached from other phases",
    "maximum(carried - own, 0)",
    category="allocator",
    source="the caching allocator returns nothing to the driver before empty_cache or a failure",
    why="Memory that another phase needed stays reserved until PyTorch's cache is emptied.",
)
