"""JSON against the standard library's reader."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.importer.edited import Addition, Change, diff, edited
from planner.importer.given import UnreadableError
from planner.importer.json_text import read_json

TEXT = """{
  "bf16": {"enabled": "auto"},
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": { "device": "cpu", "pin_memory": true },
    "sub_group_size": 1e9,
    "empty": {}
  },
  "betas": [0.9, 0.999, {"a": null}],
  "text": "größe \\" \\u00e9",
  "train_batch_size": "auto"
}
"""


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, one in value.items():
        nested = isinstance(one, dict) and one
        found |= flat(one, f"{prefix}{key}.") if nested else {f"{prefix}{key}": one}
    return found


def test_values_are_those_of_the_standard_reader() -> None:
    assert {g.name: g.value for g in read_json(TEXT, "ds.json").givens} == flat(json.loads(TEXT))


@pytest.mark.parametrize("value", [2, "it's \"a\"", None, True, 1e-6, ["x"], {"a": 1}])
def test_only_the_value_changes(value: Any) -> None:
    for given in read_json(TEXT, "ds.json").givens:
        assert given.place
        text = edited({"ds.json": TEXT}, [Change(given.place, value)])["ds.json"]
        said = json.loads(text)
        for key in given.name.split("."):
            said = said[key]
        assert said == value
        changed = diff({"ds.json": TEXT}, {"ds.json": text}).splitlines()
        assert sum(line.startswith("-") for line in changed) <= 2


@pytest.mark.parametrize(
    "name", ["", "bf16", "zero_optimization", "zero_optimization.offload_optimizer"]
)
def test_an_entry_is_added_at_an_objects_end(name: str) -> None:
    ends = read_json(TEXT, "ds.json").ends
    text = edited({"ds.json": TEXT}, [Addition(ends[name], ("new", [1]))])["ds.json"]
    said = json.loads(text)
    for key in filter(None, name.split(".")):
        said = said[key]
    assert said["new"] == [1] and list(said)[-1] == "new"


def test_an_entry_of_an_empty_object_and_of_one_with_lines_stand_as_the_others_do() -> None:
    for before, after in (
        ("{}", '{"a": 1}'),
        ('{"b": 2}', '{"b": 2, "a": 1}'),
        ('{\n  "b": 2\n}', '{\n  "b": 2,\n  "a": 1\n}'),
        ('{\n  "b": [\n    1\n  ]\n}', '{\n  "b": [\n    1\n  ],\n  "a": 1\n}'),
    ):
        end = read_json(before, "a.json").ends[""]
        assert edited({"a.json": before}, [Addition(end, ("a", 1))]) == {"a.json": after}


def test_windows_line_ends_stay() -> None:
    text = TEXT.replace("\n", "\r\n")
    place = next(g.place for g in read_json(text, "a").givens if g.name.endswith("stage"))
    assert place
    after = edited({"a": text}, [Change(place, 2)])["a"]
    assert after == text.replace('"stage": 3', '"stage": 2')


@pytest.mark.parametrize(
    "text",
    [
        *("", "[1]", "{", '{"a" 1}', '{"a": 1,}', "{'a': 1}", '{"a": 1} x'),
        *('{"a": ' + "[" * 99, '{"a": 01}'),
    ],
)
def test_what_is_no_object_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(UnreadableError, match="line 1"):
        read_json(text, "a.json")


def test_what_trainers_write_is_read() -> None:
    (given,) = read_json('{"log_history": [{"loss": NaN, "grad_norm": Infinity}]}', "s").givens
    assert str(given.value) == "[{'loss': nan, 'grad_norm': inf}]"
