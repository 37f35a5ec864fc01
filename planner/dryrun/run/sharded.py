"""FSDP2 as rank 0 of many, on tensors without data.

``fully_shard`` does all that it does on a GPU, in its order and on its streams. The other ranks
are made up (PyTorch's fake process group) and collectives move nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.distributed.fsdp import CPUOffloadPolicy
from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam
from torch.utils._python_dispatch import _disable_current_modes

from planner.dryrun.logs.log import OUTSIDE
from planner.dryrun.run.tracker import Tracker
from planner.plan import Plan
from planner.setup.quantities import quantities

FULLY_SHARD = "torch.distributed.fsdp._fully_shard"
SHAPES = "torch.distributed.tensor._sharding_prop.ShardingPropagator"
COLLECTIVES = ("all_gather_single", "reduce_scatter_single", "all_reduce")


@contextmanager
def mesh_of(plan: Plan, device: str = "meta", streams: bool = True) -> Iterator[Any]:
    """A mesh of the plan's shards, of which this process is rank 0.

    Args:
        plan: says how many.
        device: type of the step's tensors: ``meta``, or ``cpu`` for fakes.
        streams: whether ``device`` has streams, as a card does; a CPU has none.
    """
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    q = quantities(plan)
    shards = int(q.shards)
    replicas = int(q.data_parallel) // shards
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=shards * replicas)
    try:
        with _device_module(device, streams):
            shape = (replicas, shards) if replicas > 1 else (shards,)
            names = ("replicate", "shard") if replicas > 1 else None
            with unset_fake_temporarily():
                ranks = torch.arange(shards * replicas).view(shape)
                mesh = DeviceMesh(device, ranks, mesh_dim_names=names)
            yield mesh
    finally:
        dist.destroy_process_group()


class Stream(torch.cpu.Stream):
    """A stream whose events can be told from none, as FSDP2 does for all devices but the CPU."""

    def record_event(self, event: Any = None) -> Any:
        """There is nothing to wait for."""
        return torch.cpu.Event() if event is None else event


@contextmanager
def _device_module(device: str, streams: bool) -> Iterator[None]:
    """Let FSDP2 treat the device as one with streams, those of ``torch.cpu``."""
    import torch.distributed as dist

    handle = {name: getattr(torch.cpu, name) for name in dir(torch.cpu) if name[0] != "_"}
    handle["current_device"] = lambda: 0
    if streams:
        handle["Stream"] = Stream
    moved = {name: getattr(dist, name) for name in dir(dist) if name[:2] != "__"}
    moved |= dict.fromkeys(COLLECTIVES, _nothing)
    with ExitStack() as stack:
        for target, value in (
            (f"torch.{device}", SimpleNamespace(**handle)),
            ("torch.accelerator.current_stream", torch.cpu.current_stream),
            (f"{FULLY_SHARD}._fully_shard._get_device_from_mesh", lambda _: torch.device(device)),
            (f"{FULLY_SHARD}._fsdp_collectives.dist", SimpleNamespace(**moved)),
            (
                f"{FULLY_SHARD}._fsdp_param_group.FSDPParamGroup._validate_no_meta_params",
                _nothing,
            ),
            (f"{SHAPES}._propagate_tensor_meta_non_cached", _disable_current_modes()(_shapes())),
        ):
            stack.enter_context(patch(target, value, create=target == "torch.meta"))
        yield


def _shapes() -> Callable[..., Any]:
    """How DTensor learns a result's shape: from tensors as large as all ranks' together.

    No mode may see them, since they would look like the step's own.
    """
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    return ShardingPropagator._propagate_tensor_meta_non_cached


def _nothing(*_: Any, **__: Any) -> None:
    return None


def streams() -> Callable[[], int]:
    """Numbers the current stream; 0 is the one that computes."""
    known: list[Any] = [torch.cpu.current_stream()]

    def number() -> int:
        current = torch.cpu.current_stream()
        for place, stream in enumerate(known):
            if stream is current:
                return place
        known.append(current)
        return len(known) - 1

    return number


@contextmanager
def resizes(tracker: Tracker) -> Iterator[None]:
    """Tell the tracker of storages that are resized in place."""
    resize = torch.UntypedStorage.resize_

    def resized(storage: torch.UntypedStorage, size: int) -> Any:
        result = resize(storage, size)
        tracker.resized(storage, size)
        return result

    with patch.object(torch.UntypedStorage, "resize_", resized):
        yield


@contextmanager
def endings(tracker: Tracker) -> Iterator[None]:
    """What FSDP2 does once a backward has ended is outside every layer."""
    from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState

    end = FSDPState._root_post_backward_final_callback

    def ended(state: Any) -> None:
        tracker.enter_block(OUTSIDE)
        end(state)

    with patch.object(FSDPState, "_root_post_backward_final_callback", ended):
        yield


@contextmanager
def two_memories(on_host: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Host and device are one memory here: what FSDP2 moves between them is a copy.

    Args:
        on_host: inside, what is made is in host RAM.
    """
    gather = cast(Any, FSDPParam).all_gather_inputs.fget
    groups: Any = import_module(f"{FULLY_SHARD}._fsdp_param_group")
    reduce, keep = groups.foreach_reduce, FSDPParam.to_sharded_dtensor

    def gathered(parameter: Any) -> Any:
        kept = parameter._sharded_param_data
        if parameter.offload_to_cpu:
            parameter._sharded_param_data = kept.clone()
        try:
            return gather(parameter)
        finally:
            parameter._sharded_param_data = kept

    def waiting(parameter: Any, gradient: torch.Tensor) -> Any:
        if parameter.offload_to_cpu:
            with on_host():
                gradient = gradient.clone()
        return keep(parameter, gradient)

    def reduced(*given: Any, **named: Any) -> Any:
        with patch.object(FSDPParam, "to_sharded_dtensor", waiting):
            return reduce(*given, **named)

    with (
        patch.object(FSDPParam, "all_gather_inputs", property(gathered)),
        patch.object(groups, "foreach_reduce", reduced),
    ):
        yield


@dataclass
class Unpinned(CPUOffloadPolicy):
    """Where there is no driver nothing is pinned."""

    pin_memory: bool = False


@contextmanager
def layers_together(tracker: Tracker) -> Iterator[None]:
    """Say which layers' weights are gathered where one unit is many layers.

    Gathered weights belong to their layers then, and the flat buffer knows each one's share.
    """
    groups: Any = import_module(f"{FULLY_SHARD}._fsdp_param_group")
    gather, wait = groups.foreach_all_gather, groups.FSDPParamGroup.wait_for_unshard

    def blocks_of(params: Any) -> list[int]:
        found = [tracker.block_of(each.sharded_param._local_tensor) for each in params]
        return found if len({*found} - {OUTSIDE}) > 1 else []

    def gathered(params: Any, group: Any, *given: Any, **named: Any) -> Any:
        result = gather(params, group, *given, **named)
        blocks = blocks_of(params)
        if result is None or not blocks:
            return result
        shares = [0] * (max(blocks) + 1)
        told = result.param_all_gather_input_numels, result.param_all_gather_input_dtypes
        for block, numels, dtypes in zip(blocks, *told, strict=True):
            if block != OUTSIDE:
                sizes = (n * dtype.itemsize for n, dtype in zip(numels, dtypes, strict=True))
                shares[block] += group.size() * sum(sizes)
        tracker.describe(result.all_gather_output, by_layer=tuple(shares))
        return result

    def unsharded(unit: Any) -> None:
        wait(unit)
        for block, each in zip(blocks_of(unit.fsdp_params), unit.fsdp_params, strict=False):
            for tensor in each.all_gather_outputs:
                tracker.describe(tensor, block=block)

    with (
        patch.object(groups, "foreach_all_gather", gathered),
        patch.object(groups.FSDPParamGroup, "wait_for_unshard", unsharded),
    ):
        yield
