"""What a dry run's step runs in: fakes, GPU branches, optimizers without kernels, sharding.

Plans run on the meta device, which costs least. Only autocast needs a device that it knows, so
plans with it run on fake CPU tensors.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from planner.catalog.multiprocessors import multiprocessors
from planner.dryrun.run.branches import Branches, cpu_branches, gpu_branches, traits
from planner.dryrun.run.branches.cpu import CpuBranches
from planner.dryrun.run.branches.folded import folded_on_meta
from planner.dryrun.run.branches.liger import liger_kernels
from planner.dryrun.run.sharded import endings, layers_together, mesh_of, resizes, streams
from planner.dryrun.run.stage import DryStage
from planner.dryrun.run.tracker import NOTHING, Tracker
from planner.plan import Plan
from planner.plan.facts import adapts_experts, facts_of
from planner.plan.frameworks import framework_named
from planner.setup.setup import setup_of
from planner.setup.workload import kernel_of, targets
from planner.steps.sharding import Wrapper, fully_sharded, unsharded
from planner.values.sharding import sharding_of

World = tuple[Tracker, DryStage, Wrapper]
On = Literal["gpu", "cpu"]
"""Whose branches a step takes: the plan's card's, or those of the CPU that can be looked at."""


@contextmanager
def world(
    plan: Plan,
    on: On = "gpu",
    *,
    autocast: bool | None = None,
    answers: Mapping[Any, Callable[..., Any]] = NOTHING,
) -> Iterator[World]:
    """Tracker, stage and wrapper for a plan; everything is put back afterwards.

    A framework's own code says itself whether it asks for autocast, and what operators answer
    whose result depends on data.
    """
    fake = needs_autocast(plan) if autocast is None else autocast
    device = "cpu" if fake else "meta"
    with ExitStack() as stack:
        enter = stack.enter_context
        if fake:
            enter(_swappable(enter(FakeTensorMode(allow_non_fake_inputs=True))))
        branches = enter(_branches(plan, on, device))
        pads_to = framework_named(plan.framework).pads_to
        branches.lone_rows_whole = pads_to == "micro-batch"
        enter(_kernelless())
        if plan.finetuning != "full" and adapts_experts(targets(plan), facts_of(plan).policy):
            enter(folded_on_meta())
        if sharding_of(plan).fsdp > 0:
            wrap = fully_sharded(enter(mesh_of(plan, device, streams=on == "gpu")))
            tracker = Tracker(branches.scratch, streams(), device, answers)
            enter(resizes(tracker))
            enter(endings(tracker))
            enter(layers_together(tracker))
        else:
            wrap, tracker = unsharded, Tracker(branches.scratch, streams(), device, answers)
        cores = multiprocessors(plan.gpu) if on == "gpu" else 1
        kernels = enter(liger_kernels(cores)) if plan.liger else None
        yield tracker, DryStage(tracker, device, branches, kernels), wrap
        tracker.log.notes.extend(branches.notes)


def _branches(plan: Plan, on: On, device: str) -> AbstractContextManager[Branches | CpuBranches]:
    kinds = {kernel_of(model.attention) for model in setup_of(plan).models}
    attention = "flash" if "flash" in kinds else kernel_of(plan.attention)
    if on == "cpu":
        return cpu_branches(plan.batch_shape, attention, device)
    return gpu_branches(
        card=traits(facts_of(plan).gpu, plan.torch_version),
        batch_shape=plan.batch_shape,
        attention=attention,
    )


def needs_autocast(plan: Plan) -> bool:
    """Whether fp32 weights are computed with in half precision by autocast."""
    setup = setup_of(plan)
    return setup.autocasts_adapters or setup.models[0].autocast


@contextmanager
def _swappable(mode: FakeTensorMode) -> Iterator[None]:
    """Modules may change the dtype of fake weights, as peft does with new adapters.

    torch swaps fake weights in place, which it refuses while anything refers to them weakly; the
    mode's memory of tensors it has converted does.
    """
    swap = torch.utils.swap_tensors

    def swapped(one: torch.Tensor, other: torch.Tensor) -> None:
        mode.fake_tensor_converter.meta_converter.tensor_memo.clear()
        swap(one, other)  # type: ignore[no-untyped-call]

    with patch("torch.utils.swap_tensors", swapped):
        yield


@contextmanager
def _kernelless() -> Iterator[None]:
    """Initialisation computes nothing, and fused AdamW accepts tensors without data."""
    from transformers.initialization import no_init_weights

    with ExitStack() as stack:
        stack.enter_context(no_init_weights())
        stack.enter_context(patch("torch.optim.adam._device_dtype_check_for_fused", _accept))
        yield


def _accept(*_: Any, **__: Any) -> None:
    return None


@contextmanager
def silent() -> Iterator[None]:
    """Libraries have nothing to tell whoever asked for a dry run."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
