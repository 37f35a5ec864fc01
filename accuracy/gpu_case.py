"""One case in a process of its own: real steps of a plan, read phase by phase.

``python -m accuracy.gpu_case ANSWER`` reads ``{"plan", "cap_bytes", "device", "meter"}`` from a
line of standard input, imports what the plan needs, waits for a second line, and writes its answer
to a file: processes begun ahead wait so for the card. The steps are those of a trial: the product's
own (``planner/methods/*/step.py``), or, of a plan of TRL's, TRL's trainer. An error is an answer
too; a process that dies leaves none.
"""

from __future__ import annotations

import gc
import json
import platform
import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from planner.benchmark.run.constants import CudaMemory, Reading
from planner.dryrun.ask.request import configs_of
from planner.plan import Plan
from planner.plan.frameworks import code_of, ours
from planner.plan.methods import part
from planner.steps import run as runs
from planner.steps.sharding import Wrapper
from planner.steps.stage import Stage
from planner.trial.run.meter import PhaseLog, ProcessMeter
from planner.trial.run.process_group import sharding

STEPS = 3
"""The first makes the optimizer's state and fills the allocator's cache; the last counts."""


def prepare(plan: Plan) -> None:
    """Import everything that the plan's steps need; nothing of it touches the card."""
    configs_of(plan)
    import_module("transformers.modeling_utils")
    if ours(code_of(plan.framework)):
        part(plan.method, "step", "step")
    else:
        import_module(f"planner.frameworks.{plan.framework}.run.trial")
        import_module("trl")


def steps(plan: Plan, device: str, meter: ProcessMeter, log: PhaseLog) -> list[str]:
    """Build the plan's models with random weights on the device and run its steps.

    Returns:
        What a framework's own trainer did otherwise than the estimate supposes.
    """
    torch.manual_seed(0)
    with sharding(plan, device) as wrap, meter.watch():
        stage = Stage(device, on_phase=log.on_phase)
        if ours(code_of(plan.framework)):
            _ours(plan, stage, wrap, log)
            told = []
        else:
            theirs = import_module(f"planner.frameworks.{plan.framework}.run.trial")
            told = theirs.train(
                [plan] * STEPS, configs_of(plan), stage, log.on_phase, lambda place: log.step()
            )
        stage.synchronize()
        return told


def _ours(plan: Plan, stage: Stage, wrap: Wrapper, log: PhaseLog) -> None:
    step = part(plan.method, "step", "step")
    run = runs.build(plan, stage, configs_of(plan), wrap)
    gc.collect()
    runs.send_away(run)
    for _ in range(STEPS):
        log.step()
        step(run)


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the case found: phases of both steps, or how and in which phase it failed."""
    plan, device = Plan(**request["plan"]), str(request["device"])
    module, _, name = str(request["meter"]).rpartition(".")
    meter: ProcessMeter = getattr(import_module(module), name)()
    log = PhaseLog(meter)
    found: dict[str, Any] = {"versions": versions(device), "steps": log.steps}
    try:
        if request["cap_bytes"]:
            meter.cap(int(request["cap_bytes"]))
        found["before"] = meter.read()
        found["told"] = steps(plan, device, meter, log)
    except torch.OutOfMemoryError as error:
        found["failed"] = _failed("out of memory", log, error)
    except Exception as error:  # a case's failure is its result
        found["failed"] = _failed("error", log, error)
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    found["after"] = meter.read()
    return found


def _failed(kind: str, log: PhaseLog, error: Exception) -> dict[str, str]:
    message = f"{type(error).__name__}: {error}".splitlines()[0][:400]
    return {"kind": kind, "phase": log.current, "message": message}


def versions(device: str) -> dict[str, str]:
    """What the figures depend on."""
    found = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("transformers", "peft", "trl"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    if device == "cuda":
        found["cuda"] = str(torch.version.cuda)
        found["card"] = torch.cuda.get_device_name()
        found["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
    return found


def constants() -> dict[str, Any]:
    """CUDA context and cuBLAS workspaces of this card, before anything else runs."""
    memory = CudaMemory("cuda")
    reading = Reading(memory, "cuda", None)
    reading.start()
    forward, backward = reading.product_bytes
    return {
        "versions": versions("cuda"),
        "total_bytes": memory.total_bytes(),
        "context_bytes_with_other_processes": reading.context_with_others_bytes,
        "after_first_product_bytes": forward,
        "after_first_backward_bytes": backward,
    }


def main(arguments: list[str]) -> int:
    """Answer the request on standard input."""
    warnings.simplefilter("ignore")
    request = json.loads(sys.stdin.readline())
    if not request.get("constants"):
        prepare(Plan(**request["plan"]))
    if not sys.stdin.readline():
        return 1  # whoever began this process is gone
    found = constants() if request.get("constants") else answer(request)
    Path(arguments[0]).write_text(json.dumps(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
