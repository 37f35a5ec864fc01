"""Peaks of a case's steps by a framework's own code: run for real on a CPU, and run dry.

Both sides are evidence: neither is of the closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata
from typing import Any

from accuracy import hf_cases, trl_cases, verl_cases
from dry_peaks import PACKAGES
from evidence import STEPS, Evidence

WITHOUT_PACKAGES = ("SFT, packed", "SFT, packed, flash, autocast", "SFT, fp16")
"""TRL's with real runs that need no package."""
OFFLOADED = ("SFT, LoRA, activations offloaded", "SFT, state offloaded")
SHARDED = "SFT, FSDP2"
COPIES = ("frozen adapter, DPO", "frozen adapter, GRPO")
EVIDENCE = Evidence(
    "framework-runs",
    of=(
        *("accuracy.trl_runs", "accuracy.verl_runs", "accuracy.hf_runs"),
        *("planner.dryrun.run.execute", "planner.frameworks.hf_trainer.run.step"),
        *("planner.frameworks.trl.run.step", "planner.frameworks.verl.run.step", *STEPS),
    ),
    kinds=dict.fromkeys((*trl_cases.LIVE, *WITHOUT_PACKAGES, *OFFLOADED, SHARDED, *COPIES), "trl")
    | dict.fromkeys(verl_cases.LIVE, "verl")
    | dict.fromkeys(hf_cases.LIVE, "hf_trainer"),
    within=1e-3,
)

Peaks = dict[str, int]


def real_and_dry(
    case: trl_cases.Case | verl_cases.Case,
    real: Callable[[], Peaks],
    dry: Callable[[], Peaks],
    name: str = "",
    more: Any = None,
) -> tuple[Peaks, Peaks]:
    """Bytes by phase of both; ``more`` is what else decides them."""
    versions = [metadata.version(package) for package in PACKAGES]
    inputs = [asdict(case), case.plan.model_dump(), versions, more]
    found = EVIDENCE.figures(name or case.name, inputs, lambda: [real(), dry()])
    return found[0], found[1]
