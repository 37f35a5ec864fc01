"""Rank 0 of many: only its own part is a tensor of the step."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.testing._internal.distributed.fake_pg import FakeStore

from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs.log import BIRTH, Log
from planner.dryrun.run.execute import execute
from planner.dryrun.run.tracker import Tracker
from planner.plan import Plan


def _forget_shapes() -> None:
    """As in a process in which no DTensor has met an operator yet."""
    ShardingPropagator._propagate_tensor_meta_cached.cache_clear()
    propagator = DTensor._op_dispatcher.sharding_propagator  # type: ignore[attr-defined]
    propagator.propagate_op_sharding.cache.cache_clear()


def _sizes(log: Log) -> Counter[int]:
    return Counter(value for kind, _, value in log.events if kind == BIRTH)


def test_an_operators_first_meeting_with_shards_makes_no_tensor_of_all_ranks() -> None:
    """DTensor learns shapes once a process, so the second dry run never had what the first had."""
    plan = Plan(
        model="Qwen/Qwen3-0.6B",
        method="sft",
        gpus=8,
        gpu="h100-80gb",
        sharding="fsdp2",
        master_dtype="fp32",
        prompt_tokens=64,
        response_tokens=64,
        prompts_per_step=8,
        micro_batch_size=1,
    )
    configs = {"policy": {**configs_of(plan)["policy"], "num_hidden_layers": 2}}
    configs["policy"].pop("layer_types", None)
    _forget_shapes()
    first, second = (_sizes(execute(plan, configs)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_weight_put_together_is_there_once(device: str) -> None:
    """``full_tensor`` waits for what it gathers; with data, too, that is the tensor it gathered."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        mesh = DeviceMesh("cpu", torch.arange(2))
        part = torch.zeros(8, 16, device=device)
        weight = DTensor.from_local(part, mesh, [Shard(0)], run_check=False)
        tracker = Tracker(device=device)
        with tracker:
            whole = weight.full_tensor()
        assert whole.shape == (16, 16)
        made = [value for kind, _, value in tracker.log.events if kind == BIRTH]
        assert made.count(4 * 16 * 16) == 1
    finally:
        dist.destroy_process_group()
