"""Rank 0 of many: only its own part is a tensor of the step."""

from __future__ import annotations

from collections import Counter

from torch.distributed.tensor import DTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator

from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs.log import BIRTH, Log
from planner.dryrun.run.execute import execute
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
