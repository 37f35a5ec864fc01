"""What the real runs on a CPU say of the dry run: errors by method, from the stored comparison."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MEASURED = Path(__file__).with_name("measured") / "dry-run-vs-cpu.json"

INTRODUCTION = """
Here the functions that a dry run executes on fake tensors ran on real tensors on a CPU:
{cases} small configurations (two layers or more, a vocabulary of 1,000), two steps each, every
round of every loop. PyTorch's own allocator measured the memory, by the memory events of
`torch.profiler`: they include scratch inside kernels and use none of our storages, roles or
formulas. The dry run of the same plan takes the CPU's branches. Real run and dry run report the
most live bytes in each phase of the second step; the error is the dry run's, signed. The command
`python -m accuracy.cpu_runs --out accuracy/measured/dry-run-vs-cpu.json` (torch {torch},
transformers {transformers}) writes the figures; a test repeats every case
(`tests/dryrun/test_real_runs.py`, at most 0.05 % each), and another compares the operators of
whole steps one by one (`tests/dryrun/test_operators.py`).

These runs do not test a GPU's kernels, whose scratch has a table of its own
(`planner/dryrun/run/workspaces.json`). Of a CPU's, four kinds had to be declared
(`planner/dryrun/run/branches/cpu.py`: exponentials inside logsumexp, operands of mixed formats,
half-precision scatter-add, products added in fp32), and the state of the random numbers that
checkpoints keep. oneDNN is off, since what it takes depends on the processor. bf16 LayerNorms,
whose statistics a CPU keeps in another format than a card, are left to fp32 and autocast.
On a CPU, transfers between host and device are copies within one memory, so the sum of host and
device bytes is compared.
"""


@dataclass(frozen=True, slots=True)
class Errors:
    """Signed relative errors of phases."""

    name: str
    cases: int
    phases: Sequence[float]

    @property
    def row(self) -> str:
        """As a line of a table."""
        low, middle, high = np.percentile(self.phases, [5, 50, 95])
        worst = max(self.phases, key=abs)
        figures = " | ".join(f"{100 * each:+.4f} %" for each in (low, middle, high, worst))
        return f"| {self.name} | {self.cases} | {len(self.phases)} | {figures} |"


def text() -> str:
    """The section, without its title."""
    stored = json.loads(MEASURED.read_text("utf-8"))
    cases = stored["cases"]
    lines = [
        "| method | cases | phases | 5th percentile | median | 95th percentile | largest |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(case["method"] for case in cases):
        lines.append(
            _errors(name, [c for c in cases if c["method"] == name and not _sharded(c)]).row
        )
    lines.append(_errors("all under FSDP2", [case for case in cases if _sharded(case)]).row)
    lines.append(_errors("**all**", cases).row)
    return INTRODUCTION.format(cases=len(cases), **stored["versions"]) + "\n" + "\n".join(lines)


def _sharded(case: dict[str, Any]) -> bool:
    return "sharding" in case["changes"]


def _errors(name: str, cases: Sequence[dict[str, Any]]) -> Errors:
    found = [
        case["dry_run_bytes"][phase] / live - 1
        for case in cases
        for phase, live in case["real_bytes"].items()
    ]
    return Errors(name, len(cases), found)
