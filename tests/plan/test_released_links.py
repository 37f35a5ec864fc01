"""Links of every version that has existed: what they said and what they gave, for ever.

Each was written by the code of its own ``commit``, the last of its version, which also ``gave`` its
numbers. ``moved`` has the numbers that are others today, and by which commits: what each mended is
its subject, under ``moves``. ``scripts/golden`` writes today's numbers anew and puts a question
mark where somebody has to say what moved one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import pytest

from golden import LINKS, figures, released, same
from planner.plan.chosen import differences
from planner.plan.fieldtext import to_text
from planner.plan.frameworks import frameworks
from planner.plan.link import from_query, from_query_string
from planner.plan.migrations import FIRST_VERSION, VERSION
from planner.plan.pin import from_pin
from planner.plan.query import CHOSEN, fields_of
from planner.search.wish import Wish, from_text

FILE = json.loads(LINKS.read_text("utf-8"))
RELEASED = released(FILE)
each = pytest.mark.parametrize("link", RELEASED, ids=lambda link: link["name"])
RAN: Mapping[int, Mapping[str, Any]] = {
    2: {"reinforce_baseline": "none"},
    3: {"lora_dropout": 0.0, "grade_autocast": False},
    4: {
        "autocast": False,
        "base_dtype": "compute",
        "chunk_compile": False,
        "chunk_tokens": 512,
        "optimizer_step": "update",
        "temperature": 1.0,
    },
    5: {
        "resampling_factor": 1.0,
        "reward_concurrency": 1,
        "reward_seconds": 0.0,
        "rollout_overlap": "synchronous",
    },
    6: {
        "eval_steps": 0,
        "rollout_quantization": "none",
        "save_steps": 0,
        "validation_responses": 0,
    },
    7: {
        "async_scheduling": True,
        "disk_bytes_per_second": 0,
        "rollout_expert_parallel": False,
        "sync_bucket_bytes": 0,
    },
    8: {"mean_prompt_tokens": 0},
    9: {"variation": "none"},
}
"""What plans ran before a version had words for it, read in the code of the commits before."""


def written(link: Mapping[str, Any]) -> dict[str, str]:
    """The link's own texts, as a browser takes it apart."""
    query = parse_qs(link["link"].partition("?")[2], keep_blank_values=True)
    return {key: values[-1] for key, values in query.items()}


def version_of(link: Mapping[str, Any]) -> int:
    return int(written(link).get("v", FIRST_VERSION))


def test_there_are_links_of_every_version_complete_and_short() -> None:
    for complete in (True, False):
        found = {version_of(link) for link in RELEASED if link.get("complete", False) is complete}
        assert found == {*range(FIRST_VERSION, VERSION + 1)}
    assert RAN.keys() == {*range(FIRST_VERSION + 1, VERSION + 1)}


@each
def test_it_means_what_it_said(link: dict[str, Any]) -> None:
    reading, said = from_query_string(link["link"]), written(link)
    plan, version = reading.plan, version_of(link)
    assert plan is not None and reading.problems == ()
    for field, value in link["fields"].items():
        assert getattr(plan, field) == value, field
    for later, fields in RAN.items():
        for field, value in fields.items():
            assert later <= version or getattr(plan, field) == value, field
    if not link.get("complete"):
        return
    assert reading.notes == ()
    texts = {key: text for key, text in said.items() if key not in ("v", "preset", CHOSEN)}
    assert texts.keys() == set(fields_of(version))
    if version < 9 and texts["sharding"] in ("zero1", "zero2", "zero3"):
        texts["reduce_dtype"] = texts["dtype"]  # what ZeRO did then, whatever the link carried
    assert {field: to_text(getattr(plan, field)) for field in texts} == texts
    named = said.get(CHOSEN)
    assert reading.chosen == set(texts if named is None else named.split(","))
    assert reading.preset == said.get("preset", "")


COMPLETE = [link for link in RELEASED if link.get("complete")]


@pytest.mark.parametrize("link", COMPLETE, ids=lambda link: link["name"])
def test_with_another_framework_it_opens_and_says_what_followed(link: dict[str, Any]) -> None:
    """Or it stays as it was where that framework cannot, and says why."""
    before = from_query_string(link["link"]).plan
    assert before is not None
    for framework in frameworks().keys() - {before.framework}:
        reading = from_query({**written(link), "framework": framework})
        assert "framework_version" not in {problem.field for problem in reading.problems}
        assert reading.plan is not None
        if reading.problems:
            assert reading.plan == before and reading.switch is None
            continue
        assert reading.plan.framework == framework
        assert reading.switch is not None and reading.switch.before == before
        for change in differences(dict(before), dict(reading.plan)):
            said = f"{change.field} {change.before} → {change.after}" in reading.switch.note
            assert said == (not change.field.startswith("framework")), change


@each
def test_it_gives_what_it_gave_but_for_what_was_mended(link: dict[str, Any]) -> None:
    plan = from_query_string(link["link"]).plan
    assert plan is not None
    now, moved = figures(plan), link["moved"]
    assert moved.keys() <= link["gave"].keys() == now.keys()
    for name, value in now.items():
        told = moved[name]["now"] if name in moved else link["gave"][name]
        assert same(value, told), f"{name} is {value}, was {told}: scripts/golden, and say why"
    for name, one in moved.items():
        assert one["now"] != link["gave"][name] and one["by"], name
        assert {*one["by"]} <= FILE["moves"].keys(), "say which commit moved it, and what it mended"


def test_every_mended_fault_has_its_words_and_moved_something() -> None:
    named = {by for link in RELEASED for one in link["moved"].values() for by in one["by"]}
    assert named == FILE["moves"].keys()
    assert all(len(words.split()) >= 6 for words in FILE["moves"].values())


@pytest.mark.parametrize("beside", FILE["beside"], ids=lambda beside: beside["name"])
def test_pins_and_wishes_of_older_links_are_read(beside: dict[str, Any]) -> None:
    """Links have them since version 5."""
    pinned = from_pin(beside["pin"])
    assert pinned.name == beside["called"]
    for field, value in beside["fields"].items():
        assert getattr(pinned.plan, field) == value, field
    asked = {name: tuple(v) if isinstance(v, list) else v for name, v in beside["asked"].items()}
    assert from_text(beside["wish"]) == Wish(**asked)


def test_pins_and_wishes_are_of_every_version_that_has_them() -> None:
    assert {beside["name"] for beside in FILE["beside"]} == {f"v{n}" for n in range(5, VERSION + 1)}
