"""Rows of a dry run: what stands beside the closed form, over time, and at a peak."""

from __future__ import annotations

import json

import pytest

import dry_run_answers as answers
from planner.dryrun.ask.answer import answer
from planner.dryrun.ask.document import dry_run_to_json
from planner.ui.dry_run import tables
from planner.units import GIB, MIB
from planner.wording.display import UNITS

UNIT = UNITS["GiB"]
CUBLAS = 64 * MIB
"""Two handles of 32 MiB on an H100: the closed form's, beside what a dry run executes."""


def test_each_phase_stands_beside_the_closed_form() -> None:
    found = answer(answers.plan(), answers.found())
    rows = tables.against_closed_form(found, UNIT).set_index("Phase")
    assert list(rows.index) == [phase.name for phase in found.estimate.phases]
    assert rows.loc["load", "Dry run, GiB"] == "closed form only"
    assert rows.loc["load", "Difference, %"] == rows.loc["load", "Difference, GiB"] == ""
    # 2 + 6 + 2 GiB and the workspaces.
    assert rows.loc["policy backward", "Dry run, GiB"] == "10.06"
    closed = next(p for p in found.estimate.phases if p.name == "policy backward").requested_bytes
    share = closed / (10 * GIB + CUBLAS) - 1
    assert rows.loc["policy backward", "Difference, %"] == f"{share:+.2%}".rstrip("%")
    gib = closed / GIB - 10 - CUBLAS / GIB
    assert rows.loc["policy backward", "Difference, GiB"] == f"{gib:+.2f}"


@pytest.mark.parametrize(
    ("value", "text"), [(1.296, "+1.30"), (-0.5, "−0.50"), (-0.0001, "0.00"), (1234.5, "+1,234.50")]
)
def test_differences_have_a_sign_unless_they_are_nothing(value: float, text: str) -> None:
    assert tables.signed(value) == text


def test_the_timeline_starts_at_nought_and_names_what_happened() -> None:
    rows = tables.timeline_rows(answer(answers.plan(), answers.found()), UNIT)
    assert list(rows["event"]) == [0, 10, 15, 20]
    assert list(rows["phase"])[2] == "between phases"
    assert list(rows["op"]) == ["mm", "mm", "mm", "where it begins"]
    assert list(rows["total"]) == [8, 10, 0, 6]
    held = [name for name in rows.columns if name in ("logits", "kv-cache", "optimizer")]
    assert held == ["optimizer"], "only categories that hold anything, in the charts' order"


def test_what_did_not_run_stands_at_the_closed_forms_height() -> None:
    plan = answers.plan(gpus=8, gpus_per_node=8, sharding="zero2")
    found = answer(plan, answers.found())
    rows = tables.timeline_rows(found, UNIT)
    backward = next(p for p in found.footprint.phases if p.name == "policy backward")
    state = backward.by_category()["parameters"]
    assert rows["parameters"].iloc[1] == pytest.approx(state / GIB)
    assert state != 2 * GIB, "the executed step's, which DeepSpeed would shard"
    assert rows["activations"].iloc[1] == 6
    # Between phases the state stands as before, and nothing else does.
    assert rows["parameters"].iloc[2] == rows["parameters"].iloc[1]
    assert rows["activations"].iloc[2] == 0


def test_state_in_host_ram_is_not_drawn_although_the_executed_step_holds_it() -> None:
    plan = answers.plan(offload="optimizer", sharding="zero2", gpus=8)
    timeline = [answers.point(0, "policy forward", optimizer=4, activations=6)]
    rows = tables.timeline_rows(answer(plan, answers.found(timeline=timeline)), UNIT)
    assert "optimizer" not in rows.columns
    assert rows["activations"].iloc[0] == 6


def test_no_event_is_no_timeline() -> None:
    assert tables.timeline_rows(answer(answers.plan(), answers.found(timeline=[])), UNIT).empty


def test_tensors_of_one_kind_are_one_row() -> None:
    phase = {"alive": [answers.alive(24, 0.5, "activations", "layers.3", "add")]}
    row = tables.alive_table(phase, UNIT).iloc[0]
    assert (row["Together, GiB"], row["Count"], row["Shape"]) == (12, 24, "4 × 1,024")
    assert (row["Type"], row["What"], row["Role"]) == ("float32", "activations", "policy")
    assert (row["Made in"], row["by"]) == ("layers.3", "add")


def test_executed_phases_are_told_from_the_closed_forms_highest_first() -> None:
    ran = tables.executed(answer(answers.plan(), answers.found()))
    assert [p.name for p in ran] == ["policy backward", "policy forward", "optimizer step"]


def test_the_file_has_the_shape_of_every_rung_and_what_only_a_dry_run_knows() -> None:
    found = answer(answers.plan(), answers.found())
    data = json.loads(json.dumps(dry_run_to_json(found)))
    assert data["source"] == "dry run"
    first, second = data["dry_run"]["comparisons"][:2]
    assert first["dry_run_bytes"] is None and first["difference"] is None
    assert second["dry_run_bytes"] == 8 * GIB + CUBLAS
    assert data["dry_run"]["versions"]["torch"] == "2.13.0"
    assert len(data["dry_run"]["timeline"]) == 4
