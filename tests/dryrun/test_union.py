"""Phases that only the closed form or only the dry run has: shown as errors, never dropped."""

from __future__ import annotations

import pytest

import dry_run_answers as answers
from dry_run_answers import phase
from planner.dryrun.ask.answer import DryRun, answer
from planner.dryrun.ask.document import dry_run_to_json
from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs.curve import peaks
from planner.dryrun.run.execute import dry_run
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.methods import methods
from planner.ui.dry_run import tables
from planner.units import GIB, MIB
from planner.wording.display import UNITS

CUBLAS = 64 * MIB
"""Two handles of 32 MiB on an H100: the closed form's."""


def answered(*more: dict, without: str = "") -> DryRun:
    phases = [one for one in answers.found()["phases"] if one["phase"] != without]
    return answer(answers.plan(), answers.found(phases=[*phases, *more]))


EXTRA = phase("weights averaged", {"parameters": 2, "buffers": 60})
TOLD = "weights averaged: the step ran this phase, but the closed form has no such phase."
LEFT = "optimizer step: the closed form has this phase, but the step did not run it."


def test_a_phase_that_nobody_estimated_is_kept_counted_and_told() -> None:
    found = answered(EXTRA)
    last = found.footprint.phases[-1]
    assert (last.name, last.source) == ("weights averaged", "dry run")
    # A quarter more reserved than the 62 GiB, as the answer is made; the context is outside.
    context = next(one for one in found.estimate.phases if one.name == "policy forward")
    outside = context.device_bytes - context.reserved_bytes
    assert last.requested_bytes == 62 * GIB + CUBLAS
    assert last.device_bytes == 62 * GIB * 5 // 4 + CUBLAS + outside
    assert found.footprint.worst is last
    assert found.footprint.device_bytes == last.device_bytes
    assert found.footprint.verdict.word == "tight"
    assert found.errors == (TOLD,)
    assert TOLD in dry_run_to_json(found)["warnings"]


def test_a_phase_that_was_to_run_and_did_not_is_told() -> None:
    found = answered(without="optimizer step")
    assert found.errors == (LEFT,)
    assert dry_run_to_json(found)["warnings"][-1] == LEFT
    told = {one["phase"]: one["error"] for one in dry_run_to_json(found)["dry_run"]["comparisons"]}
    assert told == {
        "load": None,
        "policy forward": None,
        "policy backward": None,
        "optimizer step": LEFT,
        "checkpoint": None,
    }


def test_both_stand_in_the_pages_table_and_the_command_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from planner.cli.dry_run import _text

    found = answered(EXTRA, without="optimizer step")
    rows = tables.against_closed_form(found, UNITS["GiB"]).set_index("Phase")
    assert rows.loc["weights averaged"].tolist() == [
        *("missing", "62.06", "", "", "missing", "78.29")
    ]
    assert rows.loc["optimizer step", "Dry run, GiB"] == "missing"
    assert rows.loc["checkpoint", "Dry run, GiB"] == "closed form only"
    text = _text(found)
    assert f"error: {TOLD}" in text and f"error: {LEFT}" in text
    words = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert words["weights averaged"][2:] == ["missing", "62.1", "missing", "78.3"]
    assert words["optimizer step"][-2] == "missing"
    assert words["checkpoint"][-3:-1] == ["not", "executed"]


def test_nothing_is_told_where_both_sides_agree() -> None:
    assert answered().errors == ()


METHODS = [
    *({"method": name} for name in methods()),
    {"method": "grpo", "rollout": "hf"},
    {"method": "grpo", "rollout": "vllm-colocated", "reward": "model"},
]


@pytest.mark.parametrize("fields", METHODS, ids=lambda fields: "-".join(fields.values()))
def test_the_estimates_executed_phases_are_those_that_the_step_executes(fields: dict) -> None:
    plan = Plan(
        model="Qwen/Qwen2.5-0.5B",
        gpu="h100-80gb",
        gpus=1,
        sharding="none",
        master_dtype="none",
        prompts_per_step=2,
        prompt_tokens=16,
        response_tokens=4,
        **fields,
    )
    executed = [each.name for each in estimate(plan).phases if each.executed]
    assert sorted(executed) == sorted(peak.phase for peak in peaks(dry_run(plan, configs_of(plan))))
