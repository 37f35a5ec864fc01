"""PyTorch's CUDA caching allocator, simulated: what a stream of events reserves.

Rules of torch 2.13; see docs/allocator.md for sources and for what is not modelled.
"""

from planner.dryrun.allocator.driver import OutOfDeviceMemory
from planner.dryrun.allocator.segments import BlockInfo, Segment
from planner.dryrun.allocator.settings import AllocatorSettings
from planner.dryrun.allocator.simulator import Allocator
from planner.dryrun.allocator.trace import TraceEntry

__all__ = [
    "Allocator",
    "AllocatorSettings",
    "BlockInfo",
    "OutOfDeviceMemory",
    "Segment",
    "TraceEntry",
]
