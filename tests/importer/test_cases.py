"""Public reports and scripts, in short texts of our own with their authors' values: ``cases/``.

A case of a framework that is here gives these fields, and names what no field says; one of
another is recognised by its name and listed, without a plan; a message says these numbers.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from planner.importer.imported import Imported, imported
from planner.importer.traceback_phases import phases_of
from planner.plan import FIELDS
from planner.units import GIB
from planner.values.step_phases import LOAD, ROLLOUT, UPDATE

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(path.stem for path in FOLDER.glob("*.toml"))
PARTS = {"url", "says", "texts", "plan", "listed", "says_open", "not_expressible", "messages"} | {
    "measured"
}
THOSE_PUBLISHED = 29


def case(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))


def test_the_cases_are_all_here() -> None:
    assert len(CASES) == THOSE_PUBLISHED
    for name in CASES:
        told = case(name)
        assert told.keys() <= PARTS and ("plan" in told) != ("listed" in told), name
        assert told.get("plan", {}).keys() <= {*FIELDS}, name


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_read_as_its_author_wrote_it(name: str) -> None:
    told = case(name)
    found = imported(told["texts"])
    if "plan" in told:
        _planned(told, found)
    else:
        _recognised(told["listed"], found)
    opened = told.get("says_open", {})
    fields = {field for one in found.reading.open for field in one.fields}
    assert {*opened.get("fields", ())} <= fields
    entries = [*found.reading.open, *found.reading.unknown]
    rests = {each.name for one in entries for each in one.opens}
    assert {*opened.get("variables", ())} <= rests
    _said(told.get("messages", []), found)
    seconds = {one.words: one.value for log in found.logs for one in log.figures}
    assert told.get("measured", {}).items() <= seconds.items()


def _planned(told: dict[str, Any], found: Imported) -> None:
    plan = found.reading.plan
    assert {name: plan.get(name) for name in told["plan"]} == told["plan"]
    by_nobody = {one.name for one in (*found.reading.beyond, *found.reading.unknown)}
    assert {*told.get("not_expressible", {}).get("names", ())} <= by_nobody


def _recognised(listed: dict[str, Any], found: Imported) -> None:
    assert found.trainer == listed["trainer"] and not found.framework
    assert found.plan is None and not found.reading.plan and not found.reading.understood
    words = {one.name: one.value for one in found.reading.unknown}
    for name, value in listed.items():
        assert name == "trainer" or (name in words and value in ("", words[name])), name
    assert not found.trainer or "no verdict is given" in " ".join(found.notes)


def _said(expected: list[dict[str, Any]], found: Imported) -> None:
    assert len(found.errors) == len(expected)
    for message, one in zip(found.errors, expected, strict=True):
        assert (message.form, message.cause) == (one["form"], one["cause"])
        if "asked_gib" in one:
            assert message.sizes["asked"].holds(round(one["asked_gib"] * GIB))
        if "phases" in one:
            names, _ = phases_of(message.frames, [phase.name for phase in (LOAD, ROLLOUT, *UPDATE)])
            assert [*names] == one["phases"]
