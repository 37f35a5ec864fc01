"""State that verl keeps in host RAM, where host and device are one memory.

What goes and comes back, and when, is decided by verl's engine (``BaseEngineCtx``,
``FSDPEngine.to``); that it is elsewhere is logged in place of each transfer. State that stays there
(FSDP2's policy) is clipped and updated there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from torch.distributed.fsdp import FSDPModule
from verl.utils.fsdp_utils import fsdp2_clip_grad_norm_
from verl.workers.engine import base
from verl.workers.engine.fsdp import transformer_impl as engine

from planner.dryrun.run.stage import DryStage, local
from planner.plan import Plan
from planner.steps.optimizers import state_tensors
from planner.steps.stage import Place

CARD = "card"
"""What an engine that moves state is told that its device is; the fakes' is a CPU, as the host."""


@contextmanager
def offloading(plan: Plan, stage: DryStage) -> Iterator[None]:
    """Inside, what a plan offloads is in host RAM while verl's engine has it there."""

    def weights(module: Any, place: Place) -> None:
        for each in module.modules():
            if isinstance(each, FSDPModule):
                each.reshard()  # as its ``_apply`` does before verl's ``to`` moves anything
        stage.move(map(local, (*module.parameters(), *module.buffers())), place)
        if place == "host":
            stage.empty_cache()

    def states(optimizer: Any, place: Place) -> None:
        stage.move(map(local, state_tensors(optimizer)), place)

    own = engine.FSDPEngine.to

    @wraps(own)
    def moved(*given: Any, **named: Any) -> None:
        with patch.object(engine, "get_device_name", lambda: CARD):
            own(*given, **named)

    with ExitStack() as stack:
        for owner, name, value in (
            (base, "get_device_name", lambda: CARD),
            (engine.FSDPEngine, "to", moved),
            (engine, "load_fsdp_model_to_gpu", lambda module: weights(module, "device")),
            (engine, "offload_fsdp_model_to_cpu", lambda module: weights(module, "host")),
            (engine, "load_fsdp_optimizer", lambda found, _: states(found, "device")),
            (engine, "offload_fsdp_optimizer", lambda found: states(found, "host")),
        ):
            stack.enter_context(patch.object(owner, name, value))
        if plan.offload == "all":
            clipped = _there(fsdp2_clip_grad_norm_, stage)
            stack.enter_context(patch.object(engine, "fsdp2_clip_grad_norm_", clipped))
        yield


def waits(made: Any, stage: DryStage) -> None:
    """An engine's weights are in host RAM under FSDP2's policy, and so is their update."""
    if not made._uses_fsdp2_cpu_offload_policy:
        return
    stage.move(map(local, made.module.parameters()), "host")
    if made.optimizer is not None:
        made.optimizer.step = _there(made.optimizer.step, stage)


def _there(work: Any, stage: DryStage) -> Any:
    @wraps(work)
    def waiting(*given: Any, **named: Any) -> Any:
        with stage.tracker.on_host():
            return work(*given, **named)

    return waiting
