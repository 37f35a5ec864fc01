"""Trials of one plan that measured a share of its estimate, for the tests that compare both."""

from __future__ import annotations

from typing import Any

from planner import Plan, estimate
from planner.plan.presets import presets
from planner.trial.ask.footprints import FootprintFigures, PhaseFigures, figures_of
from planner.trial.ask.result import Device, Environment, TrialResult
from planner.trial.evidence.calibration import kind_of
from planner.trial.evidence.stated_error import (
    Compared,
    of_trial,
)
from trial.history.results import PROCESSOR, VERSIONS, trial

PLAN = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", gpus=1, sharding="none", gpu="h100-80gb")
ESTIMATE = estimate(PLAN)
SAID = figures_of(ESTIMATE)
BACKWARD = next(phase for phase in ESTIMATE.phases if phase.name == "policy backward")


def scaled(number: int, share: float, **changes: Any) -> TrialResult:
    """A trial that measured ``share`` of the estimate everywhere; the dry run was right."""
    phases = tuple(
        PhaseFigures(
            name=phase.name,
            source="trial",
            requested_bytes=round(phase.requested_bytes * share),
            allocated_bytes=round(phase.allocated_bytes * share),
            reserved_bytes=round(phase.reserved_bytes * share),
            device_bytes=round(phase.device_bytes * share),
            seconds=None if phase.seconds is None else phase.seconds * share,
        )
        for phase in ESTIMATE.phases
    )
    measured = FootprintFigures(source="trial", plan=PLAN.model_dump(), phases=phases)
    values = {"predicted": measured, "estimated": SAID, "measured": measured, **changes}
    return trial(number, PLAN, **values)


def other(**versions: str) -> Environment:
    return Environment(versions={**VERSIONS, **versions})


KIND = kind_of(scaled(0, 1.0))
SCALED = [scaled(number, share) for number, share in enumerate((1.02, 1.5, 1.01), 1)]
OF_OTHERS = [
    scaled(11, 1.9, censored=True),
    scaled(12, 1.9, device=PROCESSOR),
    scaled(13, 1.9, device=Device(kind="cuda", name="NVIDIA A100", gpu="a100-80gb")),
    scaled(14, 1.9, environment=other(torch="2.12.0+cu130")),
    scaled(15, 1.9, environment=other(transformers="5.22.0")),
    scaled(16, 1.9, environment=None),
    scaled(17, 1.9, status="stopped"),
    trial(18, presets()["grpo-7b@1"].plan),
]


def said(results: list[TrialResult]) -> list[Compared]:
    return [one for result in results for one in of_trial(result)]
