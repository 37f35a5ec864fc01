"""Collectives whose tensors are let go of by the thread that asked for them. Imports torch.

Gloo keeps buffers of its own until its threads are done with a collective. If one of these is the
last to let go, the profiler does not see it, and live bytes would seem to grow for ever. Where
allocations are watched, the caller therefore holds on to each collective a little longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch.distributed as dist

NAMES = ("all_gather_single", "reduce_scatter_single", "all_reduce", "broadcast")
"""What FSDP2 and the steps ask for, and whoever hands out weights that one process has loaded."""
AFTER_SECONDS = 0.01
"""Gloo's thread forgets a collective some microseconds after it is over."""


@contextmanager
def settled(*more: str) -> Iterator[None]:
    """Inside, every collective is over, and forgotten by its threads, when it returns.

    ``more`` are names beside :data:`NAMES`.
    """
    with ExitStack() as stack:
        for name in (*NAMES, *more):
            stack.enter_context(patch.object(dist, name, _settled(getattr(dist, name))))
        yield


def _settled(collective: Callable[..., Any]) -> Callable[..., Any]:
    def run(*given: Any, **named: Any) -> Any:
        work = collective(*given, **{**named, "async_op": True})
        work.wait()
        time.sleep(AFTER_SECONDS)
        return work if named.get("async_op") else None

    return run
