"""A sharded model's weights are made as shards: a device never holds a whole model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from planner.dryrun.ask.request import configs_of
from planner.steps import run as runs
from planner.steps.shards import weightless
from planner.steps.stage import Stage
from planner.trial.run.allocations import Marks, peak_bytes
from planner.trial.run.process_group import sharding
from trial.running import tiny

WORLD = 8


class Whole(Stage):
    """Makes whole models and cuts them, as one has to that have weights of their own."""

    makes_shards = False


def built(stage: Stage, method: str = "sft", **changes: Any) -> tuple[runs.Run, int]:
    """The run, and the most bytes that were live while it was built."""
    plan = tiny(
        method, layers=8, gpus=WORLD, sharding="fsdp2", prompts_per_step=2 * WORLD,
        dtype="bf16", master_dtype="fp32", **changes,
    )  # fmt: skip
    found: list[runs.Run] = []

    def build(marks: Marks) -> Any:
        marks.phase("build", True)
        with sharding(plan, "cpu") as wrap:
            found.append(runs.build(plan, stage, configs_of(plan), wrap))
        marks.phase("build", False)
        return found

    peaks = peak_bytes(build)
    return found[0], peaks["build"]


def test_a_build_holds_a_shard_and_no_model() -> None:
    run, by_shards = built(Stage("cpu"))
    whole_bytes = sum(weight.numel() * 4 for weight in run.policy.parameters())
    _, as_a_whole = built(Whole("cpu"))
    assert as_a_whole >= whole_bytes > 2 * by_shards


@pytest.mark.parametrize("changes", [{}, {"finetuning": "lora"}], ids=["full", "lora"])
def test_every_shard_has_values_and_the_dtype_that_a_cut_one_has(changes: dict[str, Any]) -> None:
    ours = dict(built(Stage("cpu"), **changes)[0].policy.named_parameters())
    cut = dict(built(Whole("cpu"), **changes)[0].policy.named_parameters())
    assert ours.keys() == cut.keys()
    for name, weight in ours.items():
        local: Any = weight.to_local()  # type: ignore[attr-defined]
        other: Any = cut[name].to_local()  # type: ignore[attr-defined]
        assert (local.shape, local.dtype) == (other.shape, other.dtype)
        assert weight.requires_grad == cut[name].requires_grad
        assert local.device.type == "cpu" and local.isfinite().all()
        assert local.numel() < 2 or local.dim() < 2 or local.std() > 0


def test_only_weights_are_left_out_and_ties_stay() -> None:
    with weightless():
        first, second = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
        second.weight = first.weight
        norm = nn.BatchNorm1d(4)
    assert first.weight.is_meta and second.weight is first.weight
    assert norm.running_mean is not None and not norm.running_mean.is_meta
    assert not torch.nn.Linear(2, 2).weight.is_meta
