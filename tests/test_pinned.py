"""Random plans are told what they were told: thirty here, all by ``python -m accuracy.pinned``."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from accuracy.pinned import drawing, table
from accuracy.pinned.differences import Difference, differences, summary
from accuracy.pinned.record import Record, record
from planner.plan import Plan, choices
from planner.plan.link import from_query_string

MOVED = """\
{number}: {link}
  {moves}
`python -m accuracy.pinned` shows which of all plans moved, with `--against COMMIT` every term and
instant of them. If it is meant, `--write` writes the table anew: explain every delta in docs/notes.
"""

ROWS = table.read()


def plan_of(row: table.Row) -> Plan:
    reading = from_query_string(row.link)
    assert reading.plan is not None and not reading.problems
    return reading.plan


@pytest.mark.parametrize("number", range(drawing.FIRST))
def test_a_plan_is_told_what_it_was_told(number: int) -> None:
    row = ROWS[number]
    moves = [*table.moved(row, table.row_of(row.link, record(row.link)))]
    assert not moves, MOVED.format(number=number, link=row.link, moves="\n  ".join(moves))


def test_the_first_plans_have_every_method_framework_and_sharding() -> None:
    first = [plan_of(row) for row in ROWS[: drawing.FIRST]]
    for field in ("method", "framework", "sharding"):
        assert {getattr(plan, field) for plan in first} == {*choices(field)}, field
    assert {"full", "lora"} <= {plan.finetuning for plan in first}


def test_the_table_has_short_rows_in_a_third_of_its_plans() -> None:
    found = [plan_of(row) for row in ROWS]
    short = [plan for plan in found if plan.prompt_tokens + plan.response_tokens <= drawing.ROW]
    assert len(set(found)) == len(found) == 3000
    assert 900 < len(short) < 1100
    for plans in (found, short):
        kinds = {(plan.method, plan.framework, plan.sharding) for plan in plans}
        assert len(kinds) > 90


def test_plans_are_drawn_the_same_again() -> None:
    drawn = drawing.drawn(60)
    assert drawn == drawing.drawn(60) and len(set(drawn)) == 60
    assert {plan.method for plan in drawn} == {*choices("method")}


@pytest.fixture(scope="module")
def told() -> Record:
    """What a plan with a host's, an engine's and a judge's terms is told, as a file has it."""
    found = record("model=Qwen/Qwen3-0.6B&method=grpo&gpus=8&offload=all-between-phases&v=9")
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


BACKWARD = "policy backward · policy · trainer"


def test_a_record_is_the_estimate_and_adds_up(told: Record) -> None:
    phase = told["phases"][BACKWARD]
    assert sum(phase["terms"].values()) == sum(phase["categories"].values())
    device = {name: one for name, one in phase["terms"].items() if " · device · " in name}
    assert sum(device.values()) == phase["bytes"]["device"]
    assert sum(phase["terms"].values()) - sum(device.values()) == phase["bytes"]["host"]
    assert sum(seconds for _, seconds in phase["causes"]) == pytest.approx(phase["seconds"])
    instants = dict(phase["instants"])
    assert len(instants) > 3 and instants[phase["instant"]] == phase["bytes"]["requested"]


def test_the_same_twice_is_no_difference(told: Record) -> None:
    later = deepcopy(told)
    later["phases"][BACKWARD]["seconds"] *= 1 + 1e-12
    assert not [*differences(told, later)]
    assert not [*table.moved(table.row_of("", told), table.row_of("", later))]


def first_of(phase: Any, kind: str) -> str:
    return str(next(iter(phase[kind])))


def changed(phase: Any, case: str) -> tuple[str, float | None]:
    """Change a phase; the place that a difference is to name, and how much more there is."""
    if case == "instant":
        phase["instants"][0][1] += 5
        return f"instants, {phase['instants'][0][0]}", 5
    if case == "total":
        phase["bytes"]["device"] -= 7
        return "bytes, device", -7
    if case == "seconds":
        before, phase["seconds"] = phase["seconds"], phase["seconds"] + 0.5
        return "seconds", phase["seconds"] - before
    name = first_of(phase, "terms")
    return f"terms, {name}", -phase["terms"].pop(name)


@pytest.mark.parametrize(
    ("case", "moves"),
    [
        ("instant", "instants are others"),
        ("total", f"{BACKWARD}, device"),
        ("seconds", f"{BACKWARD}, seconds"),
        ("a term is gone", "terms are others"),
    ],
)
def test_what_moves_is_named_with_its_signed_amount(told: Record, case: str, moves: str) -> None:
    later = deepcopy(told)
    what, more = changed(later["phases"][BACKWARD], case)
    (found,) = differences(told, later)
    assert (found.phase, found.what, found.more) == (BACKWARD, what, more)
    assert f"({more:+,})" in str(found)
    assert any(
        line.startswith(moves)
        for line in table.moved(table.row_of("", told), table.row_of("", later))
    )


def test_words_and_whole_phases_are_compared_too(told: Record) -> None:
    later = deepcopy(told)
    later["words"]["word"] = "tight"
    gone = later["phases"].pop(BACKWARD)
    found = [*differences(told, later)]
    assert Difference("", "word", told["words"]["word"], "tight") in found
    assert len([one for one in found if one.phase == BACKWARD and one.after is None]) >= len(
        gone["instants"]
    )
    moves = [*table.moved(table.row_of("", told), table.row_of("", later))]
    assert f"verdict: {told['words']['word']} -> tight" in moves
    assert f"{BACKWARD}: the phase is gone" in moves
    counted = [*summary(found)]
    assert any(line.endswith(f"word: {told['words']['word']} -> tight") for line in counted)


def test_a_refused_plan_is_a_difference_and_no_error(told: Record) -> None:
    refused = record("v=9&model=Qwen/Qwen3-0.6B&method=sft&gpus=0")
    assert "refused" in refused["words"] and "phases" not in refused
    assert [*differences(told, refused)]
    assert "verdict: fits -> refused" in table.moved(
        table.row_of("", told), table.row_of("", refused)
    )
