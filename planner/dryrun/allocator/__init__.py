"""PyTorch's CUDA caching allocator, simulated: what a stream of events reserves.

Rules of torch 2.13; see docs/allocator.md for sources and for what is not modelled.
"""

from planner.dryrun.allocator.driver import OutOfDeviceMemory as OutOfDeviceMemory
from planner.dryrun.allocator.settings import AllocatorSettings as AllocatorSettings
from planner.dryrun.allocator.simulator import Allocator as Allocator
from planner.dryrun.allocator.trace import TraceEntry as TraceEntry
