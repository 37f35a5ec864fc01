"""Phases are values: a method's are those that its plans have, and what each says of itself."""

from __future__ import annotations

import pytest

from planner.estimate import phase_plans
from planner.phases.scene import Scene, scene_of
from planner.plan import try_plan
from planner.plan.facts import facts_of
from planner.plan.methods import methods
from planner.values.method import Method

VARIANTS: tuple[dict[str, object], ...] = (
    {},
    {"rollout": "hf"},
    {"reward": "model"},
    {"kl": "none", "reference": "none"},
    {"critic": "shared"},
    {"grade_kl": "batch"},
    {"optimizer_step": "in-backward"},
    {"reference": "cached-logprobs"},
    {"framework": "trl"},
    {"framework": "verl"},
)


def scenes(method: Method) -> list[Scene]:
    found = (try_plan({"method": method.name, "gpus": 8, **fields})[0] for fields in VARIANTS)
    return [scene_of(plan, facts_of(plan)) for plan in found if plan is not None]


@pytest.mark.parametrize("method", methods().values(), ids=list(methods()))
def test_a_method_names_its_models_and_phases_and_no_others(method: Method) -> None:
    all_roles, all_phases = set(), set()
    for scene in scenes(method):
        roles = [model.role for model in scene.setup.models]
        kinds = [phase.kind for phase in phase_plans(scene)]
        assert set(roles) <= set(method.roles) and set(kinds) <= set(method.phases)
        assert len(set(kinds)) == len(kinds)
        all_roles |= set(roles)
        all_phases |= set(kinds)
    assert all_roles == set(method.roles)
    assert all_phases == set(method.phases)


PUBLISHED = {
    "load": None,
    "rollout": "rollout",
    "validation": "rollout",
    "old log-probs": "log-probs",
    "reference log-probs": "log-probs",
    "values": "log-probs",
    "reward": "log-probs",
    "policy forward": "update",
    "policy backward": "update",
    "optimizer step": "update",
    "critic update": "update",
    "weight sync": "weight sync",
    "checkpoint": None,
}
"""What of a run its seconds are published as (docs/accuracy.md)."""


def test_what_runs_publish_of_each_phase() -> None:
    every = {phase for method in methods().values() for phase in method.phases}
    assert {phase.name: phase.published for phase in every} == PUBLISHED


def test_what_happens_beside_each_phase() -> None:
    every = {phase for method in methods().values() for phase in method.phases}
    engine = {phase.name: phase.moment.engine for phase in every}
    awake = {name for name, state in engine.items() if state == "awake"}
    assert awake == {"rollout", "validation"}
    assert {name for name, state in engine.items() if state == "weights"} == {"weight sync"}
    assert {phase.name for phase in every if phase.stops_both} == {"weight sync"}
    assert {phase.name for phase in every if not phase.moment.loaded} == {"load"}
    assert {phase.name for phase in every if phase.waits_for_disk} == {"checkpoint"}
