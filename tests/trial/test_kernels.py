"""A plan with FlashAttention runs on a machine that has none of its kernels, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.plan import Plan
from planner.trial.ask.description import describe
from planner.trial.ask.endings import CannotRun
from planner.trial.ask.kernels import PACKAGES, with_kernels_here
from planner.trial.ask.request import request_of
from trial.running import TOLERANCE, command, errors, result_of, tiny

FLASH = tiny("sft", "llama", attention="flash", dtype="bf16")


@pytest.mark.parametrize("attention", PACKAGES)
def test_torchs_attention_takes_its_place(
    attention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(attention=attention, batch_shape="packed")
    running, notes = with_kernels_here(plan, "cpu")
    assert running == plan.changed(attention="sdpa")
    assert "no kernels for a processor" in notes[0] and "mask over packed rows" in notes[0]
    found = {PACKAGES[attention]: object()}
    monkeypatch.setattr("planner.trial.ask.kernels.find_spec", found.get)
    assert with_kernels_here(plan, "cuda") == (plan, ())
    assert with_kernels_here(plan, "cpu")[0] == running
    found.clear()
    running, notes = with_kernels_here(plan.changed(batch_shape="padded"), "cuda")
    assert running.attention == "sdpa" and "mask" not in notes[0]
    assert f"{PACKAGES[attention]} is not installed here" in notes[0]


def test_what_takes_no_other_attention_is_refused_by_the_field() -> None:
    """Torch's attention knows no soft caps."""
    plan = Plan(model="google/gemma-2-2b", framework="verl", method="grpo")
    assert plan.attention == "flash"
    with pytest.raises(CannotRun, match="^attention: FlashAttention has no kernels"):
        with_kernels_here(plan, "cpu")
    assert describe(request_of(plan)).refused.startswith("attention: ")


def test_a_kernel_that_only_the_framework_asks_for_has_no_other_in_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """verl's critic, whatever attention says."""
    plan = Plan(framework="verl", method="ppo", attention="sdpa")
    with pytest.raises(CannotRun, match="^attention: verl runs the critic with flash attention"):
        with_kernels_here(plan, "cpu")
    assert with_kernels_here(Plan(framework="verl", attention="sdpa"), "cpu")[1] == ()
    monkeypatch.setattr("planner.trial.ask.kernels.find_spec", lambda _: object())
    assert with_kernels_here(plan, "cuda") == (plan, ())


def test_a_trial_of_it_ends_with_figures(tmp_path: Path) -> None:
    assert "torch's attention" in describe(request_of(FLASH)).notes[0]
    result = result_of(command(FLASH, "--device", "cpu", data=tmp_path))
    assert result.status == "completed", result.reason
    assert any("torch's attention ran in its place" in note for note in result.notes)
    assert max(map(abs, errors(result).values())) < TOLERANCE
