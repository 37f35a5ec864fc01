"""Timings are split by project before any is compared, and stay split."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accuracy.timings import split
from accuracy.timings.compare import how
from accuracy.timings.planned import Left
from accuracy.timings.rows import FILE, rows
from accuracy.timings.runs import SET

LISTS = Path(split.__file__).with_name("split.json")


def test_the_committed_lists_are_what_the_rule_gives():
    lists = json.loads(LISTS.read_text("utf-8"))
    found = {side: {name for name in lists[side]} for side in ("seen", "held")}
    assert split.sides(json.loads(FILE.read_text("utf-8"))) == {
        name: side for side, names in found.items() for name in names
    }
    assert sum(lists["seen"].values()) == 128 and sum(lists["held"].values()) == 116


def test_a_project_lies_on_one_side_whatever_its_revisions():
    assert split.project("a/b@1234 docs/x.md") == "a/b"
    assert split.project("https://github.com/a/b/issues/7") == "a/b"
    assert split.project("https://github.com/a/b/pull/7#x") == "a/b"
    assert split.project("https://example.com/some/page (digest)") == "example.com"
    with pytest.raises(ValueError, match="source"):
        split.project("a conversation")


def test_both_sides_have_every_kind_that_more_than_one_project_has():
    for side in ("seen", "held"):
        of_side = [row for row in rows() if row.side == side]
        assert {row.trainer for row in of_side} == {True, False}
        assert any("A3B" in row["model"] for row in of_side)
        assert any("8B" in row["model"] for row in of_side)


def test_held_figures_are_not_there_unless_the_end_asks():
    assert not any(row.figures for row in rows() if row.side == "held")
    assert any(row.figures for row in rows(final=True) if row.side == "held")


def test_what_set_a_constant_of_the_planner_is_not_judged():
    told = Path("planner/catalog/efficiencies.json").read_text("utf-8")
    named = {row.project for row in rows() if row.project in told}
    assert {"mosaicml/llm-foundry"} <= named
    for row in rows():
        if row.project in named and row.side == "held":
            assert how(row) == Left(reason=SET), row.id
