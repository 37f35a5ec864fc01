"""What a dry run of a plan has in each phase at most, replayed while nothing that decides it moves.

Unlike other evidence (:mod:`evidence`) a case is the plan itself: tests just ask.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib import metadata

import evidence
from evidence import STEPS, Evidence
from planner.dryrun.ask import request
from planner.dryrun.ask.answer import CUBLAS
from planner.dryrun.ask.stand_in import StandIn, stand_in
from planner.dryrun.logs import curve
from planner.dryrun.run.execute import dry_run
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.frameworks import OWN

WORKSPACE_BYTES = {
    "a100": 8_519_680, "h100": 33_554_432, "h200": 33_554_432, "b200": 33_554_432,
}  # fmt: skip
"""Of one cuBLAS handle, by card: torch 2.13 ``CublasHandlePool.cpp``."""
PACKAGES = ("accelerate", "tensordict", "trl", "verl")


class ByPlan(Evidence):
    """Figures of whatever plans are asked for; of the committed ones those that hold are kept."""

    def __init__(self, code: str) -> None:
        own = () if code == OWN else (f"planner.frameworks.{code}.run.step",)
        modules = ("planner.dryrun.run.execute", "planner.dryrun.logs.curve", *own, *STEPS)
        super().__init__(f"dry-peaks-{code}", modules, {})
        current = [case for case, row in self._kept.items() if row["key"] == self._key(case)]
        evidence.names[self.family] = current
        self._live = frozenset(evidence._some(dict.fromkeys(current, code), self.sources))

    def peaks(self, standing: StandIn, told: tuple[str, ...] = ()) -> dict[str, int]:
        """Bytes of every phase that ran; ``told`` are words that no note of the run may have."""
        plan, configs = standing.plan, request.configs_of(standing.plan)
        packages = [metadata.version(name) for name in PACKAGES]
        asked = json.dumps([plan.model_dump(), configs, packages], sort_keys=True, default=str)
        digest = hashlib.sha256(asked.encode()).hexdigest()[:16]
        case = f"{plan.method}, {plan.model}: {digest}"
        if case not in evidence.names[self.family]:
            evidence.names[self.family].append(case)

        def ran() -> dict[str, int]:
            log = dry_run(plan, configs, code=standing.code)
            wrong = [note for note in log.notes for word in told if word in note]
            assert not wrong, wrong
            return {peak.phase: peak.total_bytes for peak in curve.peaks(log)}

        found: dict[str, int] = self.figures(case, case, ran)
        return found


OTHERWISE = ("otherwise", "Nothing trains")
"""In notes of a run whose models are not as told, or in which nothing trains."""
FULL_DEPTH = (*OTHERWISE, "full depth")
"""Of a framework's own code, that repeats no layers either."""
UPDATE = ("policy forward", "policy backward", "optimizer step")
"""Phases that every step has."""
EVIDENCE = cache(ByPlan)
"""Of each framework's code."""


def dry_peaks(plan: Plan) -> dict[str, int]:
    """Bytes by phase, without cuBLAS's workspaces, as a dry run of the plan runs it."""
    standing = stand_in(plan)
    return EVIDENCE(standing.code).peaks(standing)


def meets_dry_run(
    plan: Plan,
    *,
    within: float = 1e-3,
    above: float | None = None,
    phases: Iterable[str] = (),
    code: str = "",
) -> dict[str, int]:
    """The estimate's peaks, after each that a dry run has was found to be the dry run's.

    Args:
        plan: what to run.
        within: what the estimate may be apart, relative to the dry run.
        above: what it may be too high by, where that is more.
        phases: that ran at least.
        code: the framework whose own code has to run.
    """
    own = {phase.name: phase for phase in estimate(plan).phases}
    standing = stand_in(plan)
    assert not code or standing.code == code
    found = EVIDENCE(standing.code).peaks(standing, FULL_DEPTH if code else OTHERWISE)
    assert set(phases) <= found.keys()
    for name, size in found.items():
        workspaces = sum(term.bytes for term in own[name].terms if term.name == CUBLAS)
        assert workspaces == 2 * WORKSPACE_BYTES[plan.gpu.partition("-")[0]], name
        error = (own[name].requested_bytes - workspaces) / size - 1
        assert -within <= error <= (above or within), (name, error)
    return {name: int(phase.requested_bytes) for name, phase in own.items()}
