"""The error that measurements state of each phase, and what it does to a verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner import Plan, estimate, sweep
from planner.answer import to_json
from planner.footprint import Footprint
from planner.plan.presets import presets
from planner.trial.ask.result import result_json
from planner.trial.evidence.calibration import calibration
from planner.trial.evidence.correction import apply
from planner.trial.evidence.kind import ErrorKind, error_kind
from planner.trial.evidence.stated_error import (
    COMMITTED,
    Compared,
    committed_set,
    stated,
    stated_error,
)
from planner.trial.evidence.stated_sweep import stated_sweep
from trial.history.results import CARD
from trial.scaled import BACKWARD, ESTIMATE, KIND, OF_OTHERS, PLAN, SCALED, said, scaled

KIND_OF = error_kind(PLAN)
LARGEST = max(ESTIMATE.phases, key=lambda phase: phase.device_bytes).name


def test_an_error_that_nobody_measured_is_unknown() -> None:
    assert list(COMMITTED.glob("*.json")), "the committed set has moved"
    found = stated_error("sft", "policy backward", KIND_OF, own=said(OF_OTHERS[:2]), committed=())
    assert (found.low, found.high) == (None, None)
    assert found.source == "not measured for policy backward of SFT. Keep at least 10% free."


def test_the_error_of_stored_trials_is_signed_and_counts_them() -> None:
    found = stated_error("sft", "policy backward", KIND_OF, own=said(SCALED), committed=())
    assert found.low == pytest.approx(1 / 1.5 - 1, rel=1e-6)  # measured more than predicted
    assert found.high == pytest.approx(1 / 1.01 - 1, rel=1e-6)
    assert "3 stored trials" in found.source and "of SFT on H100 80GB SXM5," in found.source
    dry = stated_error("sft", LARGEST, KIND_OF, rung="dry run", own=said(SCALED), committed=())
    assert (dry.low, dry.high) == (0.0, 0.0)
    less = stated_error("sft", "load", KIND_OF, rung="dry run", own=said(SCALED), committed=())
    assert less.low is None, "a dry run's smaller phases say nothing of what others left cached"


def test_every_phase_states_its_own_error_and_the_footprint_its_worst_ones() -> None:
    nobody = stated(ESTIMATE, own=[], committed=[])
    assert nobody.phases == ESTIMATE.phases and nobody.verdict == ESTIMATE.verdict
    of_backward = [one for one in said(SCALED) if one.phase == "policy backward"]
    found = stated(ESTIMATE, own=of_backward, committed=[])
    errors = {phase.name: phase.error for phase in found.phases}
    assert [name for name, error in errors.items() if error] == ["policy backward"]
    real = errors["policy backward"].real_bytes(BACKWARD.device_bytes)
    assert real == pytest.approx(
        (BACKWARD.device_bytes * 1.01, BACKWARD.device_bytes * 1.5), rel=1e-6
    )
    assert found.worst.name != "policy backward" or found.error == errors["policy backward"]
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
        kind=error_kind(plan),
        predicted_bytes=100,
        measured_bytes=110,
    )
    assert {phase.error for phase in stated(before, own=[one], committed=[]).phases} == {None}


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
            kind=KIND_OF,
            predicted_bytes=other.device_bytes,
            measured_bytes=round(budget * over),
        )
        found = stated(ESTIMATE, own=[one], committed=[])
        assert found.verdict.word == word
        assert ("; upper bound " in found.verdict.sentence) == (word == "tight")
        assert not [line for line in found.verdict.lines if "may need" in line]
        assert found.worst.name == ESTIMATE.worst.name


def test_a_sweep_is_judged_by_the_measured_error_of_every_phase() -> None:
    lengths = [512, 2048, 4096]
    table = sweep(PLAN, over={"response_tokens": lengths})
    assert list(table["verdict"]) == ["fits"] * 3
    same = stated_sweep(table, ESTIMATE, committed=())
    assert same["most_bytes"].isna().all() and list(same["verdict"]) == ["fits"] * 3
    backward = table["phase: policy backward"]
    low = (backward[1] + backward[2]) / 2 / ESTIMATE.budget_bytes - 1  # the last one alone exceeds
    own = [compared_at(1 + low), compared_at(1.25)]
    found = stated_sweep(table, ESTIMATE, own, committed=())
    assert list(found["verdict"]) == ["fits", "fits", "tight"]
    mine = found["worst_phase"] == "policy backward"
    assert mine.any()
    assert found["most_bytes"][mine].tolist() == pytest.approx(backward[mine] / (1 + low), rel=1e-6)
    assert found["least_bytes"][mine].tolist() == pytest.approx(backward[mine] / 1.25, rel=1e-6)
    assert found["most_bytes"][~mine].isna().all()
    assert list(table["verdict"]) == ["fits"] * 3


def compared_at(ratio: float) -> Compared:
    """Predicted ``ratio`` times what was measured."""
    return Compared(
        rung="estimate",
        method="sft",
        phase="policy backward",
        gpu=CARD.gpu,
        kind=KIND_OF,
        predicted_bytes=round(10**12 * ratio),
        measured_bytes=10**12,
    )


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


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({"gpu": "h200-141gb"}, ""),
        ({"micro_batch_size": 2, "gradient_checkpointing": "full"}, ""),
        ({"gpu": "a100-80gb"}, "Ampere cards"),
        ({"gpu": "custom", "gpu_bytes": 80 * 2**30}, "other cards"),
        ({"gpus": 8, "sharding": "fsdp2"}, "FSDP2"),
        ({"gpus": 8, "sharding": "ddp"}, "DDP"),
        ({"offload": "optimizer-between-phases"}, "offload of optimizer-between-phases"),
        ({"activation_offload": True}, "offload of activations"),
        ({"framework": "trl", "logits": "fused"}, "TRL and fused logits"),
        ({"logits": "chunked"}, "chunked logits"),
        ({"model": "allenai/OLMoE-1B-7B-0924"}, "mixtures of experts"),
        (
            {"gpu": "a100-80gb", "activation_offload": True},
            "offload of activations and Ampere cards",
        ),
    ],
)
def test_an_error_is_stated_of_the_kind_that_was_measured_alone(
    changes: dict[str, Any], lacks: str
) -> None:
    """Any phase and verdict of another kind stay as they are; what is not covered is named."""
    own = {"model": PLAN.model, "method": "sft", "gpus": 1, "sharding": "none", "gpu": PLAN.gpu}
    plan = Plan(**{**own, "logits": PLAN.logits, "prompts_per_step": 64, **changes})
    before = estimate(plan)
    found = stated(before, own=said_everywhere(before), committed=())
    assert (found.error.low is not None) == (not lacks)
    line = f"Error of the peak not measured for {lacks}"
    assert found.assumptions == ((line,) if lacks else ())
    if lacks:
        assert found.phases == before.phases and found.verdict == before.verdict
        assert found.error.source == f"not measured for {lacks}. Keep at least 10% free."


def said_everywhere(of: Footprint) -> list[Compared]:
    """Comparisons of the one kind that was measured, in every phase of a footprint."""
    return [replace(compared_at(0.9), phase=phase.name) for phase in of.phases]


def test_what_is_not_covered_is_told_of_the_nearest_kind() -> None:
    far = KIND_OF._replace(framework="verl", cards="Ampere cards")
    near = KIND_OF._replace(cards="Ampere cards")
    assert KIND_OF.lacking([far, near]) == ("Hopper cards",)
    assert KIND_OF.lacking([far, KIND_OF]) == () == KIND_OF.lacking([])


def test_the_committed_errors_are_of_these_kinds() -> None:
    """Who adds measurements adds their kind here: it is what the product says it knows."""
    where = "no sharding", "no offload", "Hopper cards"
    plain = ErrorKind("dense models", "Plain PyTorch", "full logits", *where)
    assert {one.kind for one in committed_set()} == {
        plain,
        plain._replace(loss="response logits"),
        plain._replace(framework="TRL", loss="fused logits"),
    }


def test_a_sweep_over_cards_states_an_error_on_those_of_the_family_alone() -> None:
    cards = ["h100-80gb", "a100-80gb", "h200-141gb"]
    table = sweep(PLAN, over={"gpu": cards})
    found = stated_sweep(table, ESTIMATE, said_everywhere(ESTIMATE), committed=())
    assert list(found["most_bytes"].isna()) == [False, True, False]
    models = sweep(PLAN, over={"model": [PLAN.model, "allenai/OLMoE-1B-7B-0924"]})
    found = stated_sweep(models, ESTIMATE, said_everywhere(ESTIMATE), committed=())
    assert list(found["most_bytes"].isna()) == [False, True]


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
        shardings = ["no sharding", "FSDP2"]
        assert [one.kind.sharding for one in rows] == shardings[:least]


def test_the_committed_set_is_read(tmp_path: Path) -> None:
    rows = [
        row("a", 1.1),
        row("b", 0.9),
        row("retried", 1.9, num_alloc_retries=1),
        {**row("c", 1.9), "measured": {"failed": {"kind": "oom"}}},
    ]
    (tmp_path / "gpu-h100-80gb.json").write_text(json.dumps({"gpu": "h100-80gb", "cases": rows}))
    (tmp_path / "dry-run-vs-cpu.json").write_text('{"cases": [1]}')
    found = stated_error("sft", "policy backward", KIND_OF, committed=committed_set(tmp_path))
    assert found.low == pytest.approx(1 / 1.1 - 1, rel=1e-6)
    assert found.high == pytest.approx(1 / 0.9 - 1, rel=1e-6)
    assert "2 committed measurements" in found.source
    of = "sft", "policy backward", KIND_OF
    dry = stated_error(*of, rung="dry run", committed=committed_set(tmp_path))
    assert dry.low == pytest.approx(0.1, rel=1e-6)
    said = result_json(scaled(1, 2.0))
    (tmp_path / "trials-h100-80gb.json").write_text(
        f'{{"gpu": "h100-80gb", "cases": [{{"name": "t", "result": {said}}}]}}'
    )
    committed_set.cache_clear()
    both = stated_error("sft", "policy backward", KIND_OF, committed=committed_set(tmp_path))
    assert both.low == pytest.approx(-0.5, rel=1e-6)
    assert "3 committed measurements" in both.source
    (tmp_path / "gpu-h100-80gb.json").write_text('{"gpu": "x", "cases": [{}]}')
    committed_set.cache_clear()
    with pytest.raises(ValueError, match="gpu-h100-80gb.json"):
        committed_set(tmp_path)
