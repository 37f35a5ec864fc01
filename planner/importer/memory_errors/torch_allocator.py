"""Torch's caching allocator: one sentence, of CUDA, HIP and XPU, with every part it may have.

``DeviceCachingAllocator::malloc`` in c10/cuda/CUDACachingAllocator.cpp (torch 2.13), which rounds
with ``format_size``; and the sentence in brackets of torch 2.0 and before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.importer.memory_errors.message import (
    SIZE,
    Form,
    Judged,
    Size,
    patterns,
    printed,
)
from planner.units import MIB

NOBODYS = 256 * MIB
"""Of a card, that neither this process nor free memory accounts for: below it, rounding."""
WORTH = 0.02
"""Of what is allocated: less than that unused in segments is how every full card looks."""
_OF_A_PROCESS = re.compile(rf"Process \d{{1,9}} has {SIZE} memory in use")


def judged(sizes: dict[str, Size], text: str) -> Judged:
    """Why the block was not there, from the figures alone.

    A process of another sort on the card comes first where without it the block had fitted; then
    bytes that torch had reserved and could not use in one piece.
    """
    found = sizes | dict(_reserved(sizes))
    found |= dict(_others(found, text))
    asked, free, none = found["asked"], found.get("free"), Size(0, 0)
    if "total" in found and asked.low > found["total"].high:
        return "shortage", found
    if "allowed" in found and free is not None and free.low >= asked.high:
        return "process limit", found
    others, free = found.get("others", none), free or none
    if others.high and others.high + free.high >= asked.low:
        return "another process", found
    unallocated = found.get("unallocated", none)
    worth = WORTH * found.get("allocated", none).bytes
    broken = unallocated.high >= max(asked.low, worth)
    return "fragmentation" if broken else "shortage", found


def _reserved(sizes: dict[str, Size]) -> Iterator[tuple[str, Size]]:
    """What the older sentence leaves to be subtracted."""
    if "reserved" in sizes and "allocated" in sizes:
        most, held = sizes["reserved"], sizes["allocated"]
        yield "unallocated", Size(max(most.low - held.high, 0), max(most.high - held.low, 0))


def _others(sizes: dict[str, Size], text: str) -> Iterator[tuple[str, Size]]:
    """What this process has in use, and others: in a container torch names itself by a number."""
    each = [size for of in _OF_A_PROCESS.findall(text) if (size := printed(*of)) is not None]
    if "in_use" not in sizes and each:
        mine = max(each)
        each.remove(mine)
        yield "in_use", mine
        sizes["in_use"] = mine
    if each:
        yield "others", Size(sum(one.low for one in each), sum(one.high for one in each))
    elif all(name in sizes for name in ("total", "free", "in_use")):
        total, free, mine = sizes["total"], sizes["free"], sizes["in_use"]
        if total.low - free.high - mine.high > NOBODYS:
            yield (
                "others",
                Size(total.low - free.high - mine.high, total.high - free.low - mine.low),
            )


SAID = patterns(gpu=r"GPU (\d{1,4})\b", device="(CUDA|HIP|XPU) out of memory")
FORMS = (
    Form(
        "torch",
        r"(?:CUDA|HIP|XPU) out of memory\. Tried to allocate [\d.]{1,20} \w{1,5} \(GPU",
        judged,
        patterns(
            asked="Tried to allocate {S}",
            total=r"GPU \d{1,4}; {S} total capacity",
            allocated="{S} already allocated",
            free="{S} free;",
            reserved="{S} (?:reserved in total by PyTorch|cached)",
        ),
        SAID,
        ends="reserved",
    ),
    Form(
        "torch",
        r"(?:CUDA|HIP|XPU) out of memory\. Tried to allocate",
        judged,
        patterns(
            asked="Tried to allocate {S}",
            total=r"total capaci?ty of {S}",
            free=r"of which {S} is free",
            in_use="this process has {S} memory in use",
            allowed="{S} allowed",
            allocated="Of the allocated memory {S} is allocated by PyTorch",
            private="with {S} allocated in private pools",
            unallocated="{S} is reserved by PyTorch but unallocated",
        ),
        SAID,
        ends="unallocated",
    ),
)
