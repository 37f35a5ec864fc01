"""Results of trials for the history's tests: small, each of its own id."""

from __future__ import annotations

from typing import Any

from planner.plan import Plan
from planner.plan.query import to_query_string
from planner.trial.ask.footprints import FootprintFigures, PhaseFigures
from planner.trial.ask.result import Device, Environment, TrialResult

CARD = Device(kind="cuda", name="NVIDIA H100 80GB HBM3", gpu="h100-80gb")
PROCESSOR = Device(kind="cpu", name="a processor, 2 cores")
VERSIONS = {"python": "3.11.7", "torch": "2.13.0+cu130", "transformers": "5.23.0"}
PLAN = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", gpus=1, sharding="none")


def figures(source: Any, plan: Plan, **phases: dict[str, Any]) -> FootprintFigures:
    """Figures of phases; a name's underscores stand for spaces."""
    return FootprintFigures(
        source=source,
        plan=plan.model_dump(),
        phases=tuple(
            PhaseFigures(name=name.replace("_", " "), source=source, **values)
            for name, values in phases.items()
        ),
    )


def trial(number: int = 0, plan: Plan = PLAN, **changes: Any) -> TrialResult:
    """A completed trial on a card."""
    said = figures("dry run", plan, policy_backward={"requested_bytes": 10**9})
    found = figures(
        "trial", plan, policy_backward={"requested_bytes": 10**9 + number, "seconds": 0.1}
    )
    values: dict[str, Any] = {
        "id": f"20261121-2214{number // 100 % 100:02d}-{number:06d}",
        "status": "completed",
        "created": f"2026-11-21T22:{number // 60 % 60:02d}:{number % 60:02d}Z",
        "seconds": 12.5,
        "plan": to_query_string(plan),
        "device": CARD,
        "environment": Environment(versions=VERSIONS, driver="580.1"),
        "steps": 3,
        "predicted": said,
        "measured": found,
    }
    return TrialResult(**{**values, **changes})
