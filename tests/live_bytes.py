"""Counts the live bytes of a real CPU run, knowing nothing of any formula.

Every storage that an operator hands out is counted until Python and autograd have both let
go of it. Bytes that a kernel takes and gives back inside one operator are not seen; the
profiler in :func:`profiled_peak_bytes` does see them.

Under any dispatch mode autograd takes other branches: its engine stops adding a second gradient
into the first in place, and the backwards of gather, of indexing and of top-k write into a copy of
their zeros (all ask whether a mode is active). A naive counter then sees one tensor too many in
each place; the counter here puts them in place again.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

IN_PLACE = {
    torch.ops.aten.scatter_add.default: torch.ops.aten.scatter_add_.default,
    torch.ops.aten.index_put.default: torch.ops.aten.index_put_.default,
    torch.ops.aten.scatter.src: torch.ops.aten.scatter_.src,
}
"""What a backward calls under a mode, and what it would call without one."""


class LiveBytes(TorchDispatchMode):
    """Live bytes of all storages made while active; those of ``known`` tensors are left out.

    ``naive`` leaves autograd's branches as the mode makes them.
    """

    def __init__(self, known: Iterable[torch.Tensor] = (), *, naive: bool = False) -> None:
        super().__init__()
        self.naive = naive
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
        if self.naive:
            pass
        elif func is torch.ops.aten.add.Tensor and accumulates(*args):
            return torch.ops.aten.add_.Tensor(*args)
        elif func in IN_PLACE and not torch.is_grad_enabled():
            return IN_PLACE[func](*args, **(kwargs or {}))
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


def accumulates(into: Any, more: Any) -> bool:
    """Whether autograd's engine, between two nodes, adds gradients nothing else refers to.

    No built-in node met here adds tensors itself; a Python function's backward may, and has its
    ``apply`` on the stack while it does.
    """
    if torch.is_grad_enabled() or torch._C._current_autograd_node() is None or in_function():
        return False
    same = isinstance(more, torch.Tensor) and into.shape == more.shape and into.dtype == more.dtype
    # One reference by the gradient itself, one by the Python object asked here.
    return same and torch._C._storage_Use_Count(into.untyped_storage()._cdata) <= 2


def in_function() -> bool:
    """Whether a Python autograd function's backward is running."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is torch.autograd.function.BackwardCFunction.apply.__code__:
            return True
        frame = frame.f_back
    return False


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
