"""Trials of a framework's plans run its own code: by the command, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from accuracy.trl_cases import CASES
from accuracy.verl_cases import CASES as VERL_CASES
from planner.frameworks.trl import FRAMEWORK
from planner.plan import Plan
from planner.plan.frameworks import OWN, framework_named
from planner.trial.ask.endings import CannotRun
from planner.trial.ask.variants import executed
from planner.trial.run import cadence, prediction
from trial.running import TOLERANCE, command, errors, result_of

NAMED = {case.name: case.plan for case in CASES}
VERL = {case.name: case.plan for case in VERL_CASES}
THEIRS = f"{FRAMEWORK.label} 1.16.0's own code ran"


def test_a_trial_runs_the_frameworks_code_and_measures_what_it_said(tmp_path: Path) -> None:
    flags = ("--steps", "3", "--depths", "1,2", "--lengths", "random")
    result = result_of(command(NAMED["GRPO, KL"], *flags, data=tmp_path))
    assert result.status == "completed", result.reason
    assert any(THEIRS in note for note in result.notes)
    assert not any("otherwise" in note for note in result.notes)
    assert result.measured is not None
    assert {"reference log-probs", "policy backward", "optimizer step"} <= set(errors(result))
    wrong = {phase: error for phase, error in errors(result).items() if abs(error) > TOLERANCE}
    assert not wrong
    assert [ran.layers for ran in result.ran] == [1, 2]
    assert all(f"framework={FRAMEWORK.name}" in str(ran.plan) for ran in result.ran)


TRL_SHARDED = NAMED["SFT, autocast"].changed(gpus=2, sharding="fsdp2", prompts_per_step=8)
SPREAD = (
    (TRL_SHARDED, ()),
    (TRL_SHARDED.changed(sharding="ddp", reduce_dtype="fp32"), ("--processes", "2")),
    (VERL["GRPO, packed, KL"].changed(gpus=2, prompts_per_step=4, prompts_per_update=4), ()),
)


@pytest.mark.parametrize(("plan", "flags"), SPREAD, ids=("FSDP2", "DDP in two", "verl"))
def test_sharded_plans_run_the_frameworks_code(
    plan: Plan, flags: tuple[str, ...], tmp_path: Path
) -> None:
    result = result_of(command(plan, *flags, "--steps", "1", data=tmp_path))
    assert result.status == "completed", (result.reason, result.stderr_tail)
    label = framework_named(plan.framework).label
    (named,) = [note for note in result.notes if note.startswith("Phases that")]
    assert label in named and "own code ran" in named and "optimizer step" in named
    assert not any("otherwise" in note or "no check" in note for note in result.notes)
    played = any("rank 0 of 2" in note for note in result.notes)
    assert result.device.processes == (2 if flags else 1) and played != bool(flags)
    wrong = {phase: error for phase, error in errors(result).items() if abs(error) > TOLERANCE}
    assert not wrong


def test_state_that_stays_in_host_ram_is_tried_where_the_framework_keeps_it() -> None:
    away = TRL_SHARDED.changed(offload="all")
    assert executed(away)[0] == away
    with pytest.raises(CannotRun, match="^offload: "):
        executed(away, "It stopped.")


def test_where_memory_ends_in_the_frameworks_code_the_phase_is_told(tmp_path: Path) -> None:
    flags = ("--cap-bytes", "120000000", "--truncate", "never")  # 115 MB forward, 127 MB backward
    result = result_of(command(NAMED["SFT"], *flags, data=tmp_path))
    assert result.status == "out of memory"
    assert result.out_of_memory is not None
    assert result.out_of_memory.phase == "policy backward"


def test_another_step_runs_where_the_frameworks_cannot() -> None:
    plan = NAMED["GRPO, KL"]
    assert executed(plan)[0] == plan
    sampling, notes = executed(NAMED["GRPO"])
    assert sampling.framework == OWN and "a trial samples" in notes[0] and "no check" in notes[1]
    stopped, notes = executed(plan, "It stopped.")
    assert stopped.framework == OWN and notes[0] == "It stopped."


def test_whatever_the_frameworks_code_raises_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(*_: object, **__: object) -> None:
        raise KeyError("a mask that nobody foresaw")

    monkeypatch.setattr(prediction, "dry_run", stops)
    with pytest.raises(CannotRun, match="TRL stopped without data: KeyError"):
        prediction.on_cpu(NAMED["GRPO, KL"])
    with pytest.raises(KeyError):
        prediction.on_cpu(NAMED["GRPO, KL"].model_copy(update={"framework": OWN}))


def test_a_forward_that_is_left_and_entered_again_is_one_micro_batch() -> None:
    plan: Plan = NAMED["DPO"]  # four micro-batches, of which two run, each in two parts
    whole = cadence.step_seconds(plan, "policy forward", [1.0, 2.0, 1.0, 2.0], {})
    assert whole == pytest.approx(12.0)
    assert cadence.step_seconds(plan, "policy forward", [3.0, 3.0], {}) == pytest.approx(12.0)
