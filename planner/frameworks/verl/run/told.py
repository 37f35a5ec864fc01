"""What verl's engines did, beside what the plan's setup says they do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from planner.frameworks.verl.run.made import Made
from planner.plan import Plan
from planner.setup.setup import setup_of
from planner.steps.stage import DTYPES
from planner.values.model_setup import ModelSetup

NAMES = {dtype: name for name, dtype in DTYPES.items()}


def differences(engines: Mapping[str, Made], plan: Plan) -> list[str]:
    """A sentence for everything that the engines did and the estimate supposes otherwise."""
    setup = setup_of(plan)
    found = [
        sentence
        for role, made in engines.items()
        for sentence in _of(role, made.engine, setup.model(role), plan)
    ]
    return [f"verl's engine {one}; the estimate supposes otherwise." for one in found]


def _of(role: str, engine: Any, planned: ModelSetup | None, plan: Plan) -> Iterator[str]:
    assert planned is not None
    stored = sorted({_name(weight.dtype) for weight in engine.module.parameters()})
    if stored != [planned.stored]:
        yield f"keeps the {role} in {' and '.join(stored)}"
    if engine._autocast_dtype != DTYPES[plan.dtype]:
        yield f"computes the {role} in {_name(engine._autocast_dtype)}"
    waits = engine._uses_fsdp2_cpu_offload_policy
    streams = planned.waits == "host, streamed" or (planned.trained and plan.offload == "all")
    if waits != streams:
        yield f"keeps the {role} {'in host RAM' if waits else 'on the GPU'}"
    trained = engine.optimizer is not None
    recomputes = bool(engine.module.is_gradient_checkpointing)
    if trained and recomputes != (plan.gradient_checkpointing == "full"):
        yield f"{'recomputes' if recomputes else 'keeps'} what the {role}'s layers save"


def _name(dtype: torch.dtype) -> str:
    return NAMES.get(dtype, str(dtype))
