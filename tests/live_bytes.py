"""Counts the live bytes of a real CPU run, knowing nothing of any formula.

Every storage that an operator hands out is counted until Python and autograd have both let
go of it. Bytes that a kernel takes and gives back inside one operator are not seen; the
profiler in :func:`profiled_peak_bytes` does see them.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Live bytes of all storages made while active; those of ``known`` tensors are left out."""

    def __init__(self, known: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self.live = 0
        self.peak = 0
        self.at_peak: Counter[tuple[str, int]] = Counter()
        self.sizes: dict[int, tuple[str, int]] = {}
        self.known = [tensor.untyped_storage() for tensor in known]
        self.outside = {storage._cdata for storage in self.known}

    def reset_peak(self) -> None:
        """Start the search for the highest instant anew, from what is live now."""
        self.peak = self.live
        self.at_peak = Counter(self.sizes.values())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outputs = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(outputs):
            if isinstance(leaf, torch.Tensor):
                self.meet(leaf.untyped_storage(), str(func))
        return outputs

    def meet(self, storage: torch.UntypedStorage, origin: str) -> None:
        """Count a storage not seen before."""
        key = storage._cdata
        if key in self.sizes or key in self.outside or storage.nbytes() == 0:
            return
        self.sizes[key] = (origin, storage.nbytes())
        weakref.finalize(storage, self.leave, key)
        self.live += storage.nbytes()
        if self.live > self.peak:
            self.peak = self.live
            self.at_peak = Counter(self.sizes.values())

    def leave(self, key: int) -> None:
        """Take a freed storage out of the count."""
        _, size = self.sizes.pop(key)
        self.live -= size


def profiled_peak_bytes(run: Callable[[], Any]) -> int:
    """Highest sum of the allocator's own events while ``run`` runs, above its start."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        run()
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak
