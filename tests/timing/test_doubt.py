"""Which regime's published runs an interval is of, and where no run is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks_of_cards import H100
from planner.estimate import estimate
from planner.footprint import Factors
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.length_words import offered
from planner.plan.presets import presets
from planner.speeds import Speeds
from planner.timing import doubt
from planner.values.step_phases import ROLLOUT, Moment, StepPhase

PLAN = presets()["grpo-7b@1"].plan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, bool, bool, bool]]]:
    """Which regimes are looked up."""
    found: list[tuple[str, bool, bool, bool]] = []

    def factors(phase: str, *, mixture: bool, tables: bool, lengths: bool) -> Factors:
        found.append((phase, mixture, tables, lengths))
        return Factors(low=0.5, high=2.0, rows=1, words="")

    doubt._factors.cache_clear()
    monkeypatch.setattr(doubt, "factors", factors)
    yield found
    doubt._factors.cache_clear()


def look_up(plan: Plan, phase: StepPhase | None = None, speeds: Speeds | None = None) -> Factors:
    return doubt.doubt_of(scene_of(plan, facts_of(plan, speeds)), phase)


def test_the_regime_is_the_plans(asked: list[tuple[str, bool, bool, bool]]) -> None:
    look_up(PLAN)
    look_up(PLAN.changed(model="Qwen/Qwen3-30B-A3B"), ROLLOUT)
    look_up(PLAN.changed(gpu="rtx-4090"))
    look_up(PLAN.changed(length_distribution=offered(PLAN)))
    assert asked == [
        ("step", False, True, False),
        ("rollout", True, True, False),
        ("step", False, False, False),
        ("step", False, True, True),
    ]


def test_a_persons_own_shares_are_no_kernel_tables(
    asked: list[tuple[str, bool, bool, bool]],
) -> None:
    look_up(PLAN, speeds=H100)
    assert asked == [("step", False, False, False)]


def test_a_phase_that_nobody_publishes_is_as_uncertain_as_a_step(
    asked: list[tuple[str, bool, bool, bool]],
) -> None:
    look_up(PLAN, StepPhase("of a method to come", Moment("of it"), None))
    assert asked == [("step", False, True, False)]


def test_a_step_that_samples_nothing_is_an_update_of_rows_of_known_length(
    asked: list[tuple[str, bool, bool, bool]],
) -> None:
    look_up(Plan(method="sft", batch_shape="full"))
    look_up(Plan(method="sft", batch_shape="padded"))
    assert asked == [("update", False, True, True), ("update", False, True, False)]


@pytest.mark.parametrize("preset", sorted(presets()))
def test_whatever_has_seconds_has_an_interval(preset: str) -> None:
    found = estimate(presets()[preset].plan)
    for one in (found, *found.phases):
        seconds = one.step_seconds if one is found else one.seconds
        assert (seconds is None) == (one.doubt is None)
        if seconds is not None:
            assert one.low_seconds is not None and one.high_seconds is not None
            assert one.low_seconds <= seconds <= one.high_seconds


def test_a_run_is_as_uncertain_as_its_steps_not_as_a_sum_of_phases() -> None:
    found = estimate(PLAN)
    assert found.doubt and found.step_seconds and found.high_seconds
    assert found.high_seconds / found.step_seconds == pytest.approx(found.doubt.high)
    summed = sum(one.high_seconds or 0.0 for one in found.phases)
    assert summed != pytest.approx(found.high_seconds)
