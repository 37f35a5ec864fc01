"""The error that measurements state of each phase, and what it does to a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner import estimate, sweep
from planner.answer import to_json
from planner.footprint import StatedError
from planner.plan.presets import presets
from planner.trial.ask.result import result_json
from planner.trial.evidence.calibration import calibration
from planner.trial.evidence.correction import apply
from planner.trial.evidence.stated_error import (
    COMMITTED,
    Compared,
    committed_set,
    stated,
    stated_error,
)
from planner.trial.evidence.stated_sweep import stated_errors, stated_sweep
from trial.history.results import CARD
from trial.scaled import BACKWARD, ESTIMATE, KIND, OF_OTHERS, PLAN, SCALED, said, scaled

LARGEST = max(ESTIMATE.phases, key=lambda phase: phase.device_bytes).name


def test_an_error_that_nobody_measured_is_unknown() -> None:
    assert list(COMMITTED.glob("*.json")), "the committed set has moved"
    found = stated_error("sft", "policy backward", own=said(OF_OTHERS[:2]), committed=())
    assert (found.low, found.high) == (None, None)
    assert "unknown" in found.source and "10% free" in found.source


def test_the_error_of_stored_trials_is_signed_and_counts_them() -> None:
    found = stated_error("sft", "policy backward", own=said(SCALED), committed=())
    assert found.low == pytest.approx(1 / 1.5 - 1, rel=1e-6)  # measured more than predicted
    assert found.high == pytest.approx(1 / 1.01 - 1, rel=1e-6)
    assert "3 stored trials" in found.source and "of SFT on H100 80GB SXM5," in found.source
    dry = stated_error("sft", LARGEST, rung="dry run", own=said(SCALED), committed=())
    assert (dry.low, dry.high) == (0.0, 0.0)
    less = stated_error("sft", "load", rung="dry run", own=said(SCALED), committed=())
    assert less.low is None, "a dry run's smaller phases say nothing of what others left cached"


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


def test_the_trainers_error_is_none_of_the_engines_own_gpus() -> None:
    plan = presets()["grpo-7b@1"].plan.changed(rollout="vllm-separate", rollout_gpus=4)
    before = estimate(plan)
    trainers = {phase.name for phase in before.phases if phase.rank == "trainer"}
    engine = next(phase for phase in before.phases if phase.name not in trainers)
    assert engine.rank == "rollout"
    one = Compared(
        rung="estimate",
        method="grpo",
        phase=engine.name,
        gpu=CARD.gpu,
        sharded=True,
        predicted_bytes=100,
        measured_bytes=110,
    )
    assert stated(before, own=[one], committed=[]) is before


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
            sharded=False,
            predicted_bytes=other.device_bytes,
            measured_bytes=round(budget * over),
        )
        found = stated(ESTIMATE, own=[one], committed=[])
        assert found.verdict.word == word
        told = f"{other.name[0].upper()}{other.name[1:]} may need"
        assert any(line.startswith(told) for line in found.verdict.lines) == (word == "tight")
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
    assert after.error.low is None and "10% free" in after.error.source
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


def test_an_error_is_of_plans_that_are_sharded_alike() -> None:
    own = said(SCALED)
    assert stated_error("sft", "policy backward", own=own, committed=()).low is not None
    found = stated_error("sft", "policy backward", sharded=True, own=own, committed=())
    assert found.low is None and "SFT, sharded, on a GPU" in found.source
    spread = estimate(PLAN.changed(gpus=8, sharding="fsdp2"))
    assert stated(spread, own=own, committed=[]) is spread


def test_what_was_whole_before_it_was_sharded_is_no_error(tmp_path: Path) -> None:
    """In the files of models that were made whole on the card, whose cache keeps them."""
    plan = PLAN.changed(gpus=8, sharding="fsdp2", prompts_per_step=64)
    cut = {**row("cut", 3.0), "plan": plan.model_dump()}
    for told, least in (({}, 2), ({"sharded": "made whole"}, 1)):
        file = {"gpu": "h100-80gb", **told, "cases": [row("whole", 1.1), cut]}
        folder = tmp_path / str(least)
        folder.mkdir()
        (folder / "gpu-h100-80gb.json").write_text(json.dumps(file))
        rows = [one for one in committed_set(folder) if one.rung == "estimate"]
        assert [one.sharded for one in rows] == [False, True][:least]


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
