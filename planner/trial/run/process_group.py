"""The processes that train: this one alone, one that plays a rank of many, or several real ones.

Imports torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from planner.plan import Plan
from planner.plan.frameworks import ours
from planner.setup.quantities import quantities
from planner.steps.sharding import Wrapper, fully_sharded, unsharded
from planner.trial.ask.endings import CannotRun
from planner.units import read_count
from planner.values.sharding import sharding_of

RANK_NOTE = (
    "One process played rank 0 of {world}: shards and buffers are the plan's; collectives "
    "brought its own shard again, so no other rank's data, and their time is not in the figures."
)


def ranks() -> int:
    """Processes that torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def sharding(plan: Plan, device: str) -> Iterator[Wrapper]:
    """What wraps a model, inside a process group where the plan is sharded.

    Under torchrun the group is real (NCCL, or gloo on CPUs) and has to be as large as the plan's.
    Otherwise this process is rank 0 of the plan's world: real shards, and collectives that bring
    nothing from elsewhere.

    Raises:
        CannotRun: naming the field, where torchrun's processes are not the plan's.
    """
    q = quantities(plan)
    world, shards = int(q.data_parallel), int(q.shards)
    several = ranks() > 1
    able = ("fsdp2",) if ours(plan.framework) else ("fsdp2", "ddp")
    if several and plan.sharding not in able:
        raise CannotRun(
            f"sharding: several processes train with {' or '.join(able)} only here, and the plan "
            f"says {plan.sharding}; set sharding to fsdp2, or start one process."
        )
    if several and ranks() != world:
        raise CannotRun(
            f"gpus: the plan trains on {read_count(world, 'GPU')} and torchrun started {ranks()} "
            "processes; "
            "start as many as the plan's gpus less its rollout_gpus."
        )
    if sharding_of(plan).fsdp != 2:
        yield unsharded
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    kind = device.partition(":")[0]
    if not several:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    try:
        if shards < world:
            names = ("replicate", "shard")
            mesh = init_device_mesh(kind, (world // shards, shards), mesh_dim_names=names)
        else:
            mesh = init_device_mesh(kind, (world,))
        yield fully_sharded(mesh)
    finally:
        if not several:
            dist.destroy_process_group()


@contextmanager
def joined(device: str) -> Iterator[None]:
    """The process group of torchrun's processes; nothing where this one is alone."""
    if ranks() == 1:
        yield
        return
    # Figures are gathered as Python objects, which travel between CPUs.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def rank() -> int:
    """This process among torchrun's; 0 without it."""
    return int(os.environ.get("RANK", "0"))


def everybody(data: dict[str, Any]) -> list[dict[str, Any]]:
    """What each rank has to say, on all of them."""
    if ranks() == 1:
        return [data]
    found: list[Any] = [None] * ranks()
    dist.all_gather_object(found, data)
    return found
