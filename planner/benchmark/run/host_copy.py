"""Copies between host memory and the card over its slot, pinned and pageable. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from planner.benchmark.run.case import Case, Run, Sizes


def cases(sizes: Sizes, device: str) -> Iterator[Case]:
    """Both directions of both kinds; a processor has no slot, and no pinned memory either."""
    for kind in ("pinned", "pageable") if device != "cpu" else ("pageable",):
        for way in ("to device", "to host"):
            yield Case(
                part="host copy",
                name=f"{kind} {way}",
                sizes={"bytes": sizes.host_bytes},
                moved_bytes=sizes.host_bytes,
                of="PCIe slot",
                make=partial(_copy, sizes.host_bytes, device, kind == "pinned", way == "to device"),
            )


def _copy(size_bytes: int, device: str, pinned: bool, inward: bool) -> Run:
    host = torch.zeros(size_bytes, dtype=torch.uint8, pin_memory=pinned)
    card = torch.zeros(size_bytes, dtype=torch.uint8, device=device)
    target, source = (card, host) if inward else (host, card)
    return partial(target.copy_, source, non_blocking=pinned)
