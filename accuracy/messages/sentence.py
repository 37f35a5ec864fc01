"""The sentence that torch prints where memory ends, with its own rounding.

c10/cuda/CUDACachingAllocator.cpp of torch 2.13: ``format_size`` and ``malloc``.
"""

from __future__ import annotations

from accuracy.messages.played import Failed
from planner.units import GIB, KIB, MIB


def format_size(size_bytes: int) -> str:
    """Bytes as torch prints them."""
    if size_bytes <= KIB:
        return f"{size_bytes} bytes"
    for unit, name in ((KIB, "KiB"), (MIB, "MiB")):
        if size_bytes <= unit * KIB:
            return f"{size_bytes / unit:.2f} {name}"
    return f"{size_bytes / GIB:.2f} GiB"


def sentence(failed: Failed) -> str:
    """What torch says of an allocation that failed; the process is alone on its card."""
    used = failed.reserved_bytes + failed.outside_bytes
    size = format_size
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size(failed.asked_bytes)}."
        f" GPU 0 has a total capacity of {size(failed.capacity_bytes)} of which "
        f"{size(failed.capacity_bytes - used)} is free. Including non-PyTorch memory, this process "
        f"has {size(used)} memory in use. Of the allocated memory {size(failed.allocated_bytes)} "
        f"is allocated by PyTorch, and {size(failed.reserved_bytes - failed.allocated_bytes)} is "
        "reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
        "setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
        "documentation for Memory Management  "
        "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )
