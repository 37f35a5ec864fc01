"""What a dry run is asked: configs, the allocator's settings, versions. No torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from planner.dryrun.allocator import AllocatorSettings
from planner.dryrun.ask.own_code import installed
from planner.dryrun.ask.stand_in import StandIn, stand_in
from planner.estimate import estimate
from planner.formulas.allocator import cublas_workspace_bytes
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.frameworks import own_step
from planner.term import OUTSIDE, Term

LIBRARIES = ("torch", "transformers", "peft")
IRRELEVANT = frozenset(("steps", "price_per_gpu_hour", "host_ram_per_node"))
"""Plan fields that no dry run looks at."""
SOURCES = ("setup", "values", "dryrun", "steps", "methods", "frameworks")


def configs_of(plan: Plan) -> dict[str, dict[str, Any]]:
    """config.json fields by role; a critic or reward model of its own where the plan names one."""
    return {role: dict(model.config) for role, model in facts_of(plan).models.items()}


def on_the_spot(plan: Plan) -> bool:
    """Whether the policy's coefficients were measured on the spot."""
    return bool(facts_of(plan).policy_model.spot)


def settings_of(plan: Plan, capacity_bytes: int | None = None) -> AllocatorSettings:
    """How the plan sets up the caching allocator, on an endless card or one of so many bytes."""
    return AllocatorSettings(
        expandable_segments=plan.expandable_segments, capacity_bytes=capacity_bytes
    )


def capacity_of(plan: Plan) -> int | None:
    """Bytes of the card that the executed step's allocator may reserve; None: without end.

    The closed form's of what stands beside it in the executed phases are taken off: the context,
    communicators, an engine, and terms that the executed step lacks. Where state is the closed
    form's, the step that runs has other sizes than the plan's: they say nothing of its card.
    """
    closed, standing = estimate(plan), stand_in(plan)
    if standing.by_formula:
        return None
    beside = [
        sum(int(term.bytes) for term in phase.terms if not term.host and _beside(term, standing))
        for phase in closed.phases
        if phase.executed and phase.rank == "trainer"
    ]
    return max(0, closed.budget_bytes - max(beside, default=0))


def _beside(term: Term, standing: StandIn) -> bool:
    return term.category in OUTSIDE or term.name in standing.added


def workspace_of(plan: Plan) -> int:
    """Bytes of one cuBLAS workspace on the plan's card."""
    return cublas_workspace_bytes(facts_of(plan).gpu.compute_capability or "")


def versions_of(plan: Plan) -> Mapping[str, str]:
    """Versions of what a plan's dry run executes: a framework's own packages, too."""
    own = own_step(plan.framework)
    return {**versions(), **({} if own is None else _versions(own.PACKAGES))}


def versions() -> Mapping[str, str]:
    """Versions of what every dry run executes, read without importing it."""
    return _versions(LIBRARIES)


@cache
def _versions(names: tuple[str, ...]) -> Mapping[str, str]:
    return {name: installed(name) or "not installed" for name in names}


def key_of(plan: Plan, *, full_depth: bool) -> str:
    """What a stored answer is found by: plan, configs, capacity, library versions, our own code.

    The capacity stands for the formulas and constants that it follows from.
    """
    values = {k: v for k, v in plan.model_dump().items() if k not in IRRELEVANT}
    asked = {
        "plan": values,
        "configs": configs_of(plan),
        "capacity_bytes": capacity_of(plan),
        "versions": dict(versions_of(plan)),
        "code": _code(),
        "full_depth": full_depth,
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


@cache
def _code() -> str:
    """Digest of the source files a dry run's answer comes from."""
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parents[2]
    files = [path for part in SOURCES for path in sorted((package / part).rglob("*.py"))]
    for path in (*files, package / "dryrun" / "run" / "workspaces.json"):
        digest.update(path.read_bytes())
    return digest.hexdigest()
