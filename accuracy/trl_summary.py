"""What the real runs of TRL on a CPU say: of its dry runs, and these of the closed form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from accuracy.cpu_summary import Errors
from accuracy.trl_cases import CASES, SCALE, Case
from planner.dryrun.ask.answer import CUBLAS
from planner.estimate import estimate
from planner.units import MIB

MEASURED = Path(__file__).with_name("measured") / "trl-vs-cpu.json"

INTRODUCTION = """
A dry run of a plan of TRL's executes TRL {trl}'s own trainers (docs/trl-step.md). Here they ran for
real, on a CPU: {cases} small configurations of SFT, DPO, GRPO and RLOO, each from a checkpoint on
disk through TRL's own loader, constructor and `train`, two optimizer steps, seen by PyTorch's own
allocator alone; {sharded} are sharded, by DDP in two processes or by FSDP2 in one. Responses come
with the batch; nothing is sampled. In {on_gpu} of them the fused
head, optimizers and clipping take a GPU's branches on both sides; Triton's kernels then compute
nothing. The command
`python -m accuracy.trl_runs --out accuracy/measured/trl-vs-cpu.json` (torch {torch}, transformers
{transformers}, peft {peft}, accelerate {accelerate}) writes the figures, each with a hash of what
ran; a test refuses any that would run otherwise today, repeats six for real and a share of the dry
runs (`tests/accuracy/test_trl_runs.py`).
"""
CLOSED = """
The closed form of the moment beside dry runs of the same plans for models of the catalog
({models}), at {scale} times the lengths and with a GPU's branches, cuBLAS's workspaces left out on
both sides:
"""


@cache
def stored() -> dict[str, Any]:
    """The committed runs, with their cases' rows by name."""
    found: dict[str, Any] = json.loads(MEASURED.read_text("utf-8"))
    return {**found, "cases": {row["name"]: row for row in found["cases"]}}


def dry_errors(case: Case) -> dict[str, float]:
    """Signed relative error of the stored dry run by phase, against the real run."""
    row = stored()["cases"][case.name]
    dry: dict[str, int] = row["dry_run_bytes"]
    return {phase: dry[phase] / real - 1 for phase, real in row["real_bytes"].items()}


def closed_errors(case: Case) -> dict[str, float]:
    """The same of the closed form of the moment, against the stored dry run of the whole model.

    A phase with next to nothing on the GPU, where state is in host RAM, has no relative error.
    """
    dry = stored()["cases"][case.name]["whole_bytes"]
    return {
        phase.name: (phase.requested_bytes - besides) / dry[phase.name] - 1
        for phase in estimate(case.whole).phases
        if dry.get(phase.name, 0) > MIB
        for besides in [sum(int(term.bytes) for term in phase.terms if term.name == CUBLAS)]
    }


def text() -> str:
    """The section, without its title."""
    told = {
        "cases": len(CASES),
        "sharded": sum("sharding" in case.changes for case in CASES),
        "on_gpu": sum(case.head == "gpu" for case in CASES),
        **stored()["versions"],
    }
    models = ", ".join(sorted({case.whole.model.split("/")[1] for case in CASES}))
    parts = [
        INTRODUCTION.format(**told),
        "\n".join(_table(dry_errors)),
        CLOSED.format(models=models, scale=SCALE),
        "\n".join(_table(closed_errors)),
    ]
    return "\n\n".join(part.strip("\n") for part in parts)


def _table(errors: Callable[[Case], dict[str, float]]) -> Iterator[str]:
    yield "| method | cases | phases | 5th percentile | median | 95th percentile | largest |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name in (*dict.fromkeys(case.method for case in CASES), "**all**"):
        cases = [case for case in CASES if name in (case.method, "**all**")]
        found = [error for case in cases for error in errors(case).values()]
        yield Errors(name, len(cases), found).row
