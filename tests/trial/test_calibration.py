"""Measured ÷ predicted of stored trials, applied phase by phase and taken off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner import estimate
from planner.plan.factors import Factor, Factors, factors_from_text, factors_to_text
from planner.plan.presets import presets
from planner.trial.ask.footprints import FootprintFigures, PhaseFigures
from planner.trial.evidence.calibration import Kind, calibration, kind_of, ratios
from planner.trial.evidence.correction import apply, obstacle
from trial.history.results import PROCESSOR
from trial.scaled import BACKWARD, ESTIMATE, KIND, OF_OTHERS, PLAN, SAID, SCALED, scaled


def test_ratios_are_medians_of_trials_of_one_kind() -> None:
    found = {(one.rung, one.phase, one.quantity): one for one in ratios(SCALED + OF_OTHERS, KIND)}
    one = found["estimate", "policy backward", "requested"]
    assert one.trials == 3
    assert one.median == pytest.approx(1.02, rel=1e-6)
    assert (one.lowest, one.highest) == pytest.approx((1.01, 1.5), rel=1e-6)
    dry = found["dry run", "policy backward", "requested"]
    assert (dry.median, dry.trials) == (1.0, 3)
    assert {one.trials for one in found.values()} == {3}


def test_a_phase_or_quantity_that_nobody_measured_has_no_factor() -> None:
    only = FootprintFigures(
        source="trial",
        plan=PLAN.model_dump(),
        phases=(
            PhaseFigures(
                name="policy backward", source="trial", requested_bytes=BACKWARD.requested_bytes
            ),
            PhaseFigures(name="no such phase", source="trial", requested_bytes=5),
        ),
    )
    [one] = ratios([scaled(1, 1.0, measured=only, predicted=None)], KIND)
    assert (one.rung, one.phase, one.quantity) == ("estimate", "policy backward", "requested")


def test_seconds_of_random_lengths_say_nothing_of_full_ones() -> None:
    found = ratios([scaled(1, 1.1, lengths="random")], KIND)
    assert found and all(one.quantity != "seconds" for one in found)


def test_the_estimate_is_compared_as_it_is_today() -> None:
    """What the trial's file says the estimate was does not matter, and may be anything."""
    told = SAID.model_copy(
        update={
            "phases": tuple(
                one.model_copy(update={"requested_bytes": 1, "device_bytes": 1})
                for one in SAID.phases
            )
        }
    )
    found = ratios([scaled(1, 1.02, estimated=told)], KIND)
    known = {(one.rung, one.phase, one.quantity): one.median for one in found}
    assert known["estimate", "policy backward", "device"] == pytest.approx(1.02, rel=1e-6)


def test_a_plan_that_cannot_be_has_no_estimate() -> None:
    broken = SAID.model_copy(update={"plan": {"model": "no/such"}})
    assert {one.rung for one in ratios([scaled(1, 1.0, estimated=broken)], KIND)} == {"dry run"}


def test_factors_correct_each_phase_and_can_be_taken_off() -> None:
    factors, notes = calibration(SCALED + OF_OTHERS, KIND)
    assert notes == ()
    assert factors_from_text(factors_to_text(factors)) == factors
    done = apply(factors, ESTIMATE)
    for before, after in zip(ESTIMATE.phases, done.footprint.phases, strict=True):
        assert after.device_bytes == pytest.approx(before.device_bytes * 1.02, rel=1e-5)
        assert after.requested_bytes == pytest.approx(before.requested_bytes * 1.02, rel=1e-5)
        assert sum(after.by_category().values()) == after.device_bytes
        [term] = [one for one in after.terms if one.name == "correction by 3 trials"]
        assert term.bytes == after.device_bytes - before.device_bytes
        assert [one for one in after.terms if one is not term] == list(before.terms)
    assert ESTIMATE.step_seconds is not None and done.footprint.step_seconds is not None
    assert done.footprint.step_seconds == pytest.approx(ESTIMATE.step_seconds * 1.02, rel=1e-5)
    assert done.footprint.worst.device_bytes == max(p.device_bytes for p in done.footprint.phases)
    assert "3 trials" in done.footprint.notes[0]


def of_backward(*factors: tuple[str, float], **changes: str) -> Factors:
    values = {"gpu": "h100-80gb", "method": "sft", "torch": "2.13.0", "transformers": "5.23.0"}
    return Factors(
        **{**values, **changes},
        factors=tuple(
            Factor("estimate", "policy backward", quantity, factor, 2)  # type: ignore[arg-type]
            for quantity, factor in factors
        ),
    )


def test_one_phases_factor_leaves_the_others_alone() -> None:
    done = apply(of_backward(("requested", 0.9), ("device", 0.9)), ESTIMATE)
    for before, after in zip(ESTIMATE.phases, done.footprint.phases, strict=True):
        assert (before == after) == (before.name != "policy backward")
    assert any(note.startswith("Not corrected: ") for note in done.notes)


def test_totals_stay_in_order_and_time_alone_adds_no_bytes() -> None:
    [after] = [
        phase
        for phase in apply(of_backward(("requested", 1.9)), ESTIMATE).footprint.phases
        if phase.name == "policy backward"
    ]
    assert after.requested_bytes == round(BACKWARD.requested_bytes * 1.9)
    assert after.requested_bytes <= after.allocated_bytes <= after.reserved_bytes
    assert after.reserved_bytes <= after.device_bytes
    assert sum(after.by_category().values()) == after.device_bytes
    timed = apply(of_backward(("seconds", 1.5)), ESTIMATE).footprint.phases
    [after] = [phase for phase in timed if phase.name == "policy backward"]
    assert BACKWARD.seconds is not None
    assert after == replace(BACKWARD, seconds=BACKWARD.seconds * 1.5)


def test_a_correction_can_turn_the_verdict() -> None:
    plan = presets()["grpo-7b@1"].plan
    before = estimate(plan)
    assert before.verdict.word == "fits"
    factors = Factors(
        gpu=plan.gpu,
        method="grpo",
        torch=plan.torch_version,
        transformers="",
        factors=(Factor("estimate", before.worst.name, "device", 2.0, 1),),
    )
    after = apply(factors, before)
    assert after.footprint.device_bytes == 2 * before.device_bytes
    assert after.footprint.verdict.word == "out of memory"
    assert before.verdict.word == "fits"


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"gpu": "a100-80gb"}, "gpu"), ({"method": "grpo"}, "method"), ({"torch": "2.12.0"}, "torch")],
)
def test_factors_of_something_else_are_refused(changes: dict[str, str], field: str) -> None:
    factors = of_backward(("device", 1.1), **changes)
    assert obstacle(factors, ESTIMATE).startswith(field)
    with pytest.raises(ValueError, match="nothing is corrected"):
        apply(factors, ESTIMATE)
    dry = replace(ESTIMATE, source="dry run")
    assert "no factor for a dry run" in obstacle(of_backward(("device", 1.1)), dry)


def test_a_prediction_that_is_simply_wrong_is_not_corrected() -> None:
    with pytest.raises(ValueError, match="no stored trial"):
        calibration([scaled(1, 2.5, predicted=None)], KIND)
    # The dry run of the same trial was right, so that has factors.
    factors, notes = calibration([scaled(1, 2.5)], KIND)
    assert {one.rung for one in factors.factors} == {"dry run"}
    assert any("backward, device: measured is 2.50 times the estimate's" in one for one in notes)


def test_a_processors_trials_calibrate_no_card() -> None:
    result = scaled(1, 1.0, device=PROCESSOR)
    assert ratios([result], kind_of(result))
    with pytest.raises(ValueError, match="CPU"):
        calibration([result], kind_of(result))
    with pytest.raises(ValueError, match="no stored trial"):
        calibration([], Kind(**{**_fields(KIND), "method": "dpo"}))


def _fields(kind: Kind) -> dict[str, str]:
    return {name: getattr(kind, name) for name in kind.__dataclass_fields__}
