"""TRL's own code without data against TRL for real on a CPU, as torch's allocator saw it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState

from accuracy.trl_cases import AUTOCAST, BASE, CASES, ENGINE, FOUR_BIT, HALF, LIVE, TWICE, Case
from accuracy.trl_runs import dry_peaks, real_peaks
from accuracy.trl_summary import stored
from dry_peaks import meets_dry_run
from framework_runs import real_and_dry
from planner.dryrun.ask.answer import answer
from planner.dryrun.ask.document import dry_run_to_json
from planner.dryrun.ask.stand_in import OURS, stand_in
from planner.dryrun.logs import curve
from planner.dryrun.logs.log import EMPTY_CACHE
from planner.dryrun.run import worker
from planner.dryrun.run.execute import dry_run
from planner.estimate import estimate
from planner.frameworks.trl import FRAMEWORK, own_step
from planner.frameworks.trl.run import seams, step
from planner.launch.huggingface.run import told
from planner.launch.huggingface.run.batches import ENOUGH
from planner.plan import Plan
from planner.plan.frameworks import OWN
from planner.setup.setup import setup_of

torch.set_num_threads(1)

TOLERANCE = 1e-3
NAMED = {case.name: case for case in CASES}
WHOLE = {"model": "Qwen/Qwen2.5-1.5B", "gpu": "h100-80gb", "prompt_tokens": 512}
CLOSED = (*(NAMED[name] for name in ("SFT, eager, foreach", "DPO, LoRA")), *FOUR_BIT[::2])


@pytest.mark.parametrize("name", LIVE)
def test_every_phase_peaks_where_the_allocator_says(name: str) -> None:
    case = NAMED[name]
    real, dry = real_and_dry(case, lambda: real_peaks(case), lambda: dry_peaks(case))
    assert stored()["cases"][name]["real_bytes"] == pytest.approx(real, rel=TOLERANCE)
    assert list(dry) == list(real)
    apart = {phase: dry[phase] / real[phase] - 1 for phase in real}
    assert not {phase: one for phase, one in apart.items() if abs(one) > TOLERANCE}, apart


@pytest.mark.parametrize("case", CLOSED, ids=str)
def test_the_closed_form_is_what_trl_does(case: Case) -> None:
    """At a real model's size, where no constant of TRL's head hides the layers."""
    plan = case.whole
    assert not own_step.refusal(plan)
    meets_dry_run(plan, within=TOLERANCE, code=FRAMEWORK.name)


@pytest.mark.parametrize(
    ("seam", "name"),
    [
        ("devices", "SFT"),
        ("_models", "SFT"),
        ("_autocast", "SFT"),
        ("_lists", "GRPO"),
        ("engine", "GRPO, KL"),
    ],
)
def test_nothing_runs_without_a_seam(
    seam: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loads(*_: Any, **__: Any) -> Any:
        raise OSError("there is no such checkpoint")

    monkeypatch.setattr("trl.trainer.sft_trainer.create_model_from_path", loads)
    monkeypatch.setattr(seams, seam, lambda *_: nullcontext())
    with pytest.raises((RuntimeError, ImportError, OSError, ValueError, NotImplementedError)):
        dry_peaks(NAMED[name])


@pytest.mark.parametrize("operator", list(seams.answers(1)), ids=str)
def test_data_is_asked_for_where_an_answer_is_given(
    operator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {name: found for name, found in seams.answers(64).items() if name is not operator}
    monkeypatch.setattr(step, "answers", lambda _: given)
    with pytest.raises((RuntimeError, NotImplementedError)):
        dry_peaks(replace(NAMED["SFT"], head="gpu"))


def test_the_gpus_head_has_no_tiles_in_fp32() -> None:
    on_gpu, on_cpu = dry_peaks(replace(NAMED["SFT"], head="gpu")), dry_peaks(NAMED["SFT"])
    tile = 4 * 126 * 4096  # rows that carry a label, by the vocabulary
    assert on_cpu["policy forward"] - on_gpu["policy forward"] > tile


def test_a_gpus_optimizer_in_lists_takes_a_copy_of_every_weight() -> None:
    case = NAMED["SFT, eager, foreach"]
    on_gpu, on_cpu = dry_peaks(case), dry_peaks(replace(case, head="cpu"))
    weights = estimate(case.plan).phases[0]
    size = sum(term.bytes for term in weights.terms if term.category == "parameters")
    largest = 4 * 4096 * 256
    apart = on_gpu["optimizer step"] - on_cpu["optimizer step"]
    assert size - 3 * largest < apart <= size


def test_a_process_runs_one_plan_after_another() -> None:
    before = AcceleratorState._shared_state.copy()
    dry_peaks(NAMED["SFT, autocast"])
    assert AcceleratorState._shared_state == before
    assert dry_peaks(NAMED["SFT"])


def test_trl_empties_the_cache_each_step_where_the_plan_does() -> None:
    case = Case("SFT", "sft", {"empty_cache": "every-step"})
    log = step.execute(case.plan, {"policy": case.config}, "cpu")
    assert sum(kind == EMPTY_CACHE for kind, *_ in log.events) == 2 * ENOUGH


@pytest.mark.parametrize("name", ["SFT", "GRPO, KL"])
def test_a_block_repeated_is_the_whole_model(name: str) -> None:
    case = NAMED[name]
    config = {**case.config, "num_hidden_layers": 9}
    logs = [
        dry_run(case.plan, {"policy": config}, full_depth=whole, code=FRAMEWORK.name)
        for whole in (False, True)
    ]
    short, whole = ({peak.phase: peak.total_bytes for peak in curve.peaks(log)} for log in logs)
    # Of the gradients that are clipped each has a norm of 4 bytes.
    assert short == pytest.approx(whole, rel=1e-5)
    assert not any("full depth" in note for log in logs for note in log.notes)


def test_what_the_trainer_did_otherwise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Case("SFT", "sft", {**HALF, "gradient_checkpointing": "full"})
    monkeypatch.setattr(told, "setup_of", lambda _: setup_of(other.plan))
    case = NAMED["SFT, autocast"]
    notes = step.execute(case.plan, {"policy": case.config}, "cpu").notes
    found = [note for note in notes if "otherwise" in note]
    assert "keeps the policy in fp32" in found[0] and "under autocast" in found[1]


def test_only_phases_that_trl_has_are_estimated() -> None:
    plan = NAMED["GRPO"].whole
    old = "old log-probs"
    assert old not in [phase.name for phase in estimate(plan).phases]
    assert not any(old in term.name for phase in estimate(plan).phases for term in phase.terms)
    for changes in (TWICE, ENGINE, {"framework": OWN}):
        others = replace(NAMED["GRPO"], changes={**NAMED["GRPO"].changes, **changes})
        assert old in [phase.name for phase in estimate(others.whole).phases], changes
    sharded = plan.changed(gpus=2, sharding="fsdp1")
    found = answer(sharded, worker.execute({"plan": sharded.model_dump()}))
    assert found.standing.ran == OURS and not found.errors
    assert old not in [phase["phase"] for phase in found.phases]


def test_an_answer_says_whose_code_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"code": OWN, "ran": OURS}
    plan = Plan(**{**BASE, **WHOLE, "method": "sft", **AUTOCAST})
    theirs = stand_in(plan)
    assert (theirs.code, theirs.ran) == (FRAMEWORK.name, "TRL 1.16.0's own code")
    assert theirs.plan == plan
    sharded = stand_in(plan.model_copy(update={"gpus": 4, "sharding": "fsdp1"}))
    assert {"code": sharded.code, "ran": sharded.ran} == ours
    assert "TRL's own code did not run" in sharded.notes[0] and "no check" in sharded.notes[1]
    monkeypatch.setattr(own_step, "installed", lambda _: "")
    missing = stand_in(plan)
    assert missing.code == OWN and "not installed" in missing.notes[0]


def test_fp32_adapters_beside_fp32_weights_compute_without_autocast() -> None:
    case = NAMED["SFT, LoRA in fp32, accumulated"]
    notes = step.execute(case.plan, {"policy": case.config}, "cpu").notes
    assert not [note for note in notes if "otherwise" in note]


def test_where_trl_stops_our_step_runs_and_the_answer_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stops(*_: Any) -> Any:
        raise KeyError("a mask that nobody foresaw")

    monkeypatch.setattr(step, "execute", stops)
    plan = Plan(**{**BASE, **WHOLE, "method": "sft", **AUTOCAST})
    found = answer(plan, worker.execute({"plan": plan.model_dump()}))
    assert found.standing.ran == dry_run_to_json(found)["dry_run"]["ran"] == OURS
    assert "KeyError" in found.notes[0] and not found.errors


def test_rows_that_are_not_copied_one_by_one_change_no_peak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = NAMED["GRPO, two updates, entropy"]
    fast = dry_peaks(case)
    monkeypatch.setattr(seams, "_padded", nullcontext)
    assert dry_peaks(case) == fast
