"""What real runs under FSDP1 say of the closed form."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import torch
import transformers

from accuracy import verl_cases as verl
from accuracy.flat_runs import CASES, MEASURED, RANKS, Case, stored
from planner.dryrun.ask.answer import CUBLAS
from planner.estimate import estimate

INTRODUCTION = """
A dry run of a plan with FSDP1 executes FSDP2 instead, because FSDP1's flat weights do not run on
fake tensors. Here TRL {trl}'s trainers and verl {verl}'s engines ran {cases} small configurations
on real tensors under torch's own FSDP1 on a CPU, as rank 0 of {ranks} without the other ranks;
PyTorch's own allocator measured the memory. The command
`python -m accuracy.flat_runs --out accuracy/measured/fsdp1-vs-cpu.json` (torch {torch},
transformers {transformers}, accelerate {accelerate}) writes most live bytes and tensors made, by
phase; `tests/accuracy/test_flat_runs.py` holds both beside the estimate and the
dry run. In forwards and backwards the estimate has one FSDP unit more than the real run: FSDP1's
allocator block of a unit waits for its stream before another unit can use it, and verl's backward
gathers one unit ahead. *Without it* subtracts that unit from the phase that is furthest above.
Figures of verl's reference, which waits in host RAM, leave out what it has in host RAM.

| case | lowest | highest | without it |
|---|---:|---:|---:|
"""


def text() -> str:
    """The section, without its title."""
    versions = json.loads(MEASURED.read_text("utf-8"))["versions"]
    told = INTRODUCTION.strip("\n").format(cases=len(CASES), ranks=RANKS, **versions)
    return told + "\n" + "\n".join(_line(case) for case in CASES)


def said(case: Case) -> dict[str, int]:
    """The closed form's requested bytes of each phase, without cuBLAS's."""
    found = {}
    for phase in estimate(case.plan).phases:
        workspaces = sum(int(term.bytes) for term in phase.terms if term.name == CUBLAS)
        found[phase.name] = phase.requested_bytes - workspaces
    return found


def seen(case: Case) -> dict[str, int]:
    """Bytes of each phase of the real run, on what would be the GPU."""
    real: dict[str, int] = stored()[case.name]["real_bytes"]
    return {name: size - host_bytes(case) for name, size in real.items()}


def host_bytes(case: Case) -> int:
    """Of verl's reference: its fp32 shard in host RAM, which a CPU is, and room for gradients."""
    away = isinstance(case, verl.Case) and case.plan.kl != "none"
    return 2 * 4 * parameters(case.name)[0] // RANKS * away


@cache
def parameters(name: str) -> tuple[int, int]:
    """Of a case's whole model, and of one of its layers."""
    (case,) = (case for case in CASES if case.name == name)
    settings = transformers.AutoConfig.for_model(**case.config)
    with torch.device("meta"):
        model: Any = transformers.AutoModelForCausalLM.from_config(settings)
    layer = sum(weight.numel() for weight in model.model.layers[0].parameters())
    return sum(weight.numel() for weight in model.parameters()), layer


def _line(case: Case) -> str:
    real, formula = seen(case), said(case)
    errors = {name: formula[name] / size - 1 for name, size in real.items()}
    highest = max(errors, key=lambda name: errors[name])
    buffers = next(phase for phase in estimate(case.plan).phases if phase.name == highest).terms
    units = [int(term.bytes) for term in buffers if term.name == "all-gather buffer"]
    without = (formula[highest] - min(units, default=0)) / real[highest] - 1
    lowest = min(errors.values())
    told = (lowest, errors[highest], without)
    return f"| {case} | " + " | ".join(f"{100 * one:+.2f} %" for one in told) + " |"
