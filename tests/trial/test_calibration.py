"""Measured ÷ predicted of stored trials, applied phase by phase and taken off; stated errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner import Plan, estimate, sweep
from planner.factors import Factor, Factors, factors_from_text, factors_to_text
from planner.footprint import StatedError, to_json
from planner.presets import presets
from planner.trial.calibration import Kind, calibration, kind_of, ratios
from planner.trial.correction import apply, obstacle
from planner.trial.figures import FootprintFigures, PhaseFigures, figures_of
from planner.trial.result import Device, Environment, TrialResult, result_json
from planner.trial.stated_error import (
    COMMITTED,
    Compared,
    committed_set,
    of_trial,
    stated,
    stated_error,
)
from planner.trial.stated_sweep import stated_errors, stated_sweep
from trial.history.results import CARD, PROCESSOR, VERSIONS, trial

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
    assert done.uncorrected is ESTIMATE
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
    assert after.uncorrected.verdict.word == "fits"


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
    assert any("estimate of policy backward misses device by 2.50 times" in one for one in notes)


def test_a_processors_trials_calibrate_no_card() -> None:
    result = scaled(1, 1.0, device=PROCESSOR)
    assert ratios([result], kind_of(result))
    with pytest.raises(ValueError, match="CPU"):
        calibration([result], kind_of(result))
    with pytest.raises(ValueError, match="no stored trial"):
        calibration([], Kind(**{**_fields(KIND), "method": "dpo"}))


def _fields(kind: Kind) -> dict[str, str]:
    return {name: getattr(kind, name) for name in kind.__dataclass_fields__}


def said(results: list[TrialResult]) -> list[Compared]:
    return [one for result in results for one in of_trial(result)]


def test_an_error_that_nobody_measured_is_unknown() -> None:
    assert list(COMMITTED.glob("*.json")), "the committed set has moved"
    found = stated_error("sft", "policy backward", own=said(OF_OTHERS[:2]), committed=())
    assert (found.low, found.high) == (None, None)
    assert "unknown" in found.source and "10 % free" in found.source


def test_the_error_of_stored_trials_is_signed_and_counts_them() -> None:
    found = stated_error("sft", "policy backward", own=said(SCALED), committed=())
    assert found.low == pytest.approx(1 / 1.5 - 1, rel=1e-6)  # measured more than predicted
    assert found.high == pytest.approx(1 / 1.01 - 1, rel=1e-6)
    assert "3 stored trials" in found.source and CARD.gpu in found.source
    dry = stated_error("sft", "policy backward", rung="dry run", own=said(SCALED), committed=())
    assert (dry.low, dry.high) == (0.0, 0.0)


def test_every_phase_states_its_own_error_and_the_footprint_its_worst_ones() -> None:
    assert stated(ESTIMATE, own=[], committed=[]) is ESTIMATE
    of_backward = [one for one in said(SCALED) if one.phase == "policy backward"]
    found = stated(ESTIMATE, own=of_backward, committed=[])
    errors = {phase.name: phase.error for phase in found.phases}
    assert [name for name, error in errors.items() if error] == ["policy backward"]
    real = errors["policy backward"].real_bytes(BACKWARD.device_bytes)
    assert real == pytest.approx(
        (BACKWARD.device_bytes * 1.01, BACKWARD.device_bytes * 1.5), rel=1e-6
    )
    assert found.worst.name != "policy backward" or found.error == errors["policy backward"]
    assert stated_errors(found) == {"policy backward": errors["policy backward"]}
    everywhere = stated(ESTIMATE, own=said(SCALED), committed=[])
    assert everywhere.error == everywhere.worst.error
    assert to_json(everywhere)["error"]["low"] == pytest.approx(1 / 1.5 - 1, rel=1e-6)
    assert to_json(ESTIMATE)["phases"][0]["error"] is None


def test_a_plan_fits_only_where_the_measured_error_leaves_room() -> None:
    """A phase that is not the worst can be the one that was predicted too low."""
    budget = ESTIMATE.budget_bytes
    assert ESTIMATE.verdict.word == "fits"
    other = next(phase for phase in ESTIMATE.phases if phase.name != ESTIMATE.worst.name)
    for over, word in ((1.01, "tight"), (0.99, "fits")):
        one = Compared(
            rung="estimate",
            method="sft",
            phase=other.name,
            gpu=CARD.gpu,
            predicted_bytes=other.device_bytes,
            measured_bytes=round(budget * over),
        )
        found = stated(ESTIMATE, own=[one], committed=[])
        assert found.verdict.word == word
        assert (other.name in found.verdict.sentence) == (word == "tight")
        assert found.worst.name == ESTIMATE.worst.name


def test_a_sweep_is_judged_by_the_measured_error_of_every_phase() -> None:
    lengths = [512, 2048, 4096]
    table = sweep(PLAN, over={"response_tokens": lengths})
    assert list(table["verdict"]) == ["fits"] * 3
    same = stated_sweep(table, {})
    assert same["most_bytes"].isna().all() and list(same["verdict"]) == ["fits"] * 3
    backward = table["phase: policy backward"]
    low = (backward[1] + backward[2]) / 2 / ESTIMATE.budget_bytes - 1  # the last one alone exceeds
    error = StatedError(low=low, high=0.25, source="a trial")
    found = stated_sweep(table, {"policy backward": error})
    assert list(found["verdict"]) == ["fits", "fits", "tight"]
    own = found["worst_phase"] == "policy backward"
    assert own.any()
    assert found["most_bytes"][own].tolist() == pytest.approx(backward[own] / (1 + low))
    assert found["least_bytes"][own].tolist() == pytest.approx(backward[own] / 1.25)
    assert found["most_bytes"][~own].isna().all()
    assert list(table["verdict"]) == ["fits"] * 3


def test_a_corrected_estimate_states_no_error_of_the_uncorrected_one() -> None:
    before = stated(ESTIMATE, own=said(SCALED), committed=[])
    factors, _ = calibration(SCALED, KIND)
    after = apply(factors, before).footprint
    assert after.error.low is None and "10 % free" in after.error.source
    assert {phase.error for phase in after.phases} == {None}


def row(name: str, share: float, **changes: Any) -> dict[str, Any]:
    said = BACKWARD.device_bytes
    real = {"reserved_bytes": round(said * share) - 100, "outside_bytes": 150}
    return {
        "name": name,
        "plan": PLAN.model_dump(),
        "others_bytes": 50,
        "predicted": {"dry run": {"policy backward": {"device_bytes": round(said * share * 1.1)}}},
        "measured": {"steps": [{"policy backward": {**real, **changes}}]},
    }


def test_the_committed_set_is_read(tmp_path: Path) -> None:
    rows = [
        row("a", 1.1),
        row("b", 0.9),
        row("retried", 1.9, num_alloc_retries=1),
        {**row("c", 1.9), "measured": {"failed": {"kind": "oom"}}},
    ]
    (tmp_path / "gpu-h100-80gb.json").write_text(json.dumps({"gpu": "h100-80gb", "cases": rows}))
    (tmp_path / "dry-run-vs-cpu.json").write_text('{"cases": [1]}')
    found = stated_error("sft", "policy backward", committed=committed_set(tmp_path))
    assert found.low == pytest.approx(1 / 1.1 - 1, rel=1e-6)
    assert found.high == pytest.approx(1 / 0.9 - 1, rel=1e-6)
    assert "2 committed measurements" in found.source
    dry = stated_error("sft", "policy backward", rung="dry run", committed=committed_set(tmp_path))
    assert dry.low == pytest.approx(0.1, rel=1e-6)
    said = result_json(scaled(1, 2.0))
    (tmp_path / "trials-h100-80gb.json").write_text(
        f'{{"gpu": "h100-80gb", "cases": [{{"name": "t", "result": {said}}}]}}'
    )
    committed_set.cache_clear()
    both = stated_error("sft", "policy backward", committed=committed_set(tmp_path))
    assert both.low == pytest.approx(-0.5, rel=1e-6)
    assert "3 committed measurements" in both.source
    (tmp_path / "gpu-h100-80gb.json").write_text('{"gpu": "x", "cases": [{}]}')
    committed_set.cache_clear()
    with pytest.raises(ValueError, match="gpu-h100-80gb.json"):
        committed_set(tmp_path)
