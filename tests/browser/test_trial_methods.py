"""Real trials of every method through the page: what they measure is what the dry run said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from running_app import app, settle

from planner.importer.logs import read_logs
from planner.importer.logs.as_trial import as_trial
from planner.plan import Plan
from planner.plan.methods import methods
from planner.plan.query import to_query_string
from planner.setup.quantities import quantities
from planner.trial.ask.process import TRIALS
from planner.trial.ask.result import TrialResult
from trial.running import TOLERANCE, command, errors, result_of, tiny

CHECKPOINTED = {"gradient_checkpointing": "full", "prompts_per_step": 8}
ROLLOUT = {"gpus": 1, "rollout": "hf", "rollout_gpus": 0, "response_tokens": 40}
JUDGED = {"reward": "model", "prompts_per_step": 6, "batch_shape": "padded"}
SHARDED = {
    "gpus": 8,
    "sharding": "fsdp2",
    "prompts_per_step": 32,
    "dtype": "bf16",
    "master_dtype": "fp32",
}
GROUPED = {"reinforce_baseline": "group", "responses_per_prompt": 2, "kl": "loss"}
Tried = tuple[str, dict[str, Any], tuple[str, ...]]
OTHERWISE: Tried = ("llama", {}, ("policy forward", "policy backward", "optimizer step"))
OWN: dict[str, Tried] = {
    "sft": ("qwen3", CHECKPOINTED, ("policy forward", "policy backward", "optimizer step")),
    "dpo": ("llama", {"reference": "offloaded", "dtype": "bf16"}, ("reference log-probs",)),
    "grpo": ("qwen3", {**ROLLOUT, "logits": "response"}, ("rollout", "old log-probs")),
    "ppo": ("llama", JUDGED, ("values", "reward", "critic update")),
    "intuitor": ("qwen2", {"dtype": "bf16", "master_dtype": "fp32"}, ("old log-probs",)),
    "grade": ("qwen3", {"grade_kl": "batch"}, ("policy forward", "policy backward")),
    "rloo": ("qwen2", {"dtype": "bf16", **JUDGED, "prompts_per_step": 3}, ("old log-probs",)),
    "reinforce++": ("llama", GROUPED, ("old log-probs", "reference log-probs")),
}
CASES: dict[str, Tried] = {
    **{name: OWN.get(name, OTHERWISE) for name in methods()},
    "rank": ("llama", SHARDED, ("policy forward", "policy backward", "optimizer step")),
}
"""Every method as its own trial has it, and where none is written, as a plain one."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def own_server(data: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        for name in ("HEADROOM_TRIALS", "HEADROOM_HISTORY_URL"):
            patch.delenv(name, raising=False)
        with app(data=str(data)) as address:
            yield address


@pytest.fixture(scope="module", params=CASES)
def found(
    request: pytest.FixtureRequest, tab: Page, own_server: str, data: Path
) -> tuple[str, TrialResult]:
    """One trial of each method, and one that plays rank 0 of eight; run once for all tests."""
    name = request.param
    family, changes, _ = CASES[name]
    plan = tiny("sft" if name == "rank" else name, family, **changes)
    return name, _by_command(plan, data) if name == "rank" else _by_page(
        plan, tab, own_server, data
    )


def _by_command(plan: Plan, data: Path) -> TrialResult:
    done = command(plan, "--steps", "2", "--out", str(data / "out.json"), data=data)
    result = result_of(done)
    assert done.returncode == 0, result.reason
    assert (data / "out.json").read_text("utf-8").startswith('{"v":1')
    assert result.planned() == plan
    # What it printed, pasted back, is what was measured.
    assert as_trial(read_logs(done.stdout), plan) == result
    return result


def _by_page(plan: Plan, page: Page, server: str, data: Path) -> TrialResult:
    page.goto(f"{server}/trial?{to_query_string(plan)}")
    settle(page)
    page.get_by_role("button", name="Run the trial").click()
    expect(page.get_by_text("memory is as predicted")).to_be_visible()
    settle(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    results = [state.result for state in TRIALS.states(data)]
    (result,) = [one for one in results if one is not None and one.planned() == plan]
    return result


def test_every_phase_is_measured_where_the_dry_run_says(found: tuple[str, TrialResult]) -> None:
    name, result = found
    assert result.status == "completed"
    assert set(CASES[name][2]) <= set(errors(result))
    wrong = {phase: error for phase, error in errors(result).items() if abs(error) > TOLERANCE}
    assert not wrong
    (ran,) = result.ran
    assert ran.layers == 2 and not result.extrapolated and not result.censored
    assert ran.predicted == result.predicted


def test_times_are_of_a_whole_step(found: tuple[str, TrialResult]) -> None:
    _, result = found
    assert result.measured is not None
    q = quantities(result.planned())
    for phase in result.measured.phases:
        assert phase.seconds and phase.first_seconds
        if phase.tokens:
            assert phase.tokens_per_second == pytest.approx(phase.tokens / phase.seconds)
        if phase.name == "policy forward" and result.planned().method != "grade":
            assert phase.tokens == int(q.sequences_per_gpu_step) * int(q.row_tokens)
            assert phase.flops_per_second and phase.flops_per_second > 1e6
        if phase.name == "optimizer step":
            assert phase.tokens is None and phase.flops is None
    assert result.measured.seconds == pytest.approx(
        sum(phase.seconds or 0 for phase in result.measured.phases)
    )


def test_what_a_cpu_cannot_say_is_null(found: tuple[str, TrialResult]) -> None:
    name, result = found
    assert result.measured is not None
    for phase in result.measured.phases:
        assert phase.reserved_bytes is phase.device_bytes is phase.allocation_retries is None
        assert phase.host_bytes is None or phase.host_bytes > 2**26
    assert result.environment is not None and "torch" in result.environment.versions
    assert result.environment.driver is None
    assert any("random" in note for note in result.notes)
    assert any("CPU" in note for note in result.notes)
    assert any("rank 0 of 8" in note for note in result.notes) == (name == "rank")
