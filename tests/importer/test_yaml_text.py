"""YAML against PyYAML's own loader; what is hostile is refused with a sentence."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml

from planner.importer.edited import Addition, Change, edited
from planner.importer.given import UnreadableError, lifted
from planner.importer.shell import read_shell
from planner.importer.yaml_text import read_yaml

TEXT = """\
# a run
model: Qwen/Qwen2.5-7B   # small enough
learning_rate: 1.0e-6
bf16: true
steps: 0x10
"quoted": 'it''s'
flow: {a: 1, b: [x, y]}
lists:
  - one
  - two: 2
deep:
  deeper:
    value: "8"   # as a text
    none: ~
  # at its end
  text: |
    two
    lines
anchor: &base
  x: 1
  y: 2
merged:
  <<: *base
  y: 3
empty: {}
nothing:
day: 2026-11-29
"""


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, one in value.items():
        nested = isinstance(one, dict) and one
        found |= flat(one, f"{prefix}{key}.") if nested else {f"{prefix}{key}": one}
    return found


def test_values_are_those_of_the_loader() -> None:
    said = flat(yaml.safe_load(TEXT)) | {"day": "2026-11-29"}
    assert {given.name: given.value for given in read_yaml(TEXT, "a.yaml").givens} == said


@pytest.mark.parametrize(
    "value", ["x: 1", 8, 1e-6, True, None, "yes", "1e-6", "it's \"a\"", [1, "b"], ""]
)
def test_a_changed_value_is_read_as_it_was_given_and_no_other_line_changes(value: Any) -> None:
    before = yaml.safe_load(TEXT)
    document = read_yaml(TEXT, "a.yaml")
    for given in document.givens:
        if given.place is None or given.name.startswith("merged.x"):
            continue
        text = edited({"a.yaml": TEXT}, [Change(given.place, value)])["a.yaml"]
        after = flat(yaml.safe_load(text)) | {"day": flat(yaml.safe_load(text))["day"]}
        assert after[given.name] == value, given.name
        others = ("anchor", "merged", given.name)
        same = {key for key in flat(before) if not key.startswith(others)}
        assert {k: after[k] for k in same} == {k: flat(before)[k] for k in same}
        assert "# small enough" in text and "# at its end" in text


@pytest.mark.parametrize("name", ["", "deep", "deep.deeper", "flow", "anchor", "empty"])
def test_an_entry_is_added_at_a_mappings_end(name: str) -> None:
    document = read_yaml(TEXT, "a.yaml")
    if name == "empty":
        assert "empty" not in document.ends
        return
    addition = Addition(document.ends[name], ("new", "a: b"))
    text = edited({"a.yaml": TEXT}, [addition])["a.yaml"]
    found: Any = yaml.safe_load(text)
    for key in filter(None, name.split(".")):
        found = found[key]
    assert found["new"] == "a: b"
    kept = [line for line in TEXT.splitlines() if not line.startswith("flow")]
    assert [line for line in kept if line not in text.splitlines()] == []


def test_a_here_document_is_changed_in_its_script() -> None:
    document_text = 'lr: $R\nname: "a$R"\ndeep:\n  n: 4\n'
    script = f"R=1e-6\ncat > c.yaml <<EOF\n{document_text}EOF\npython a.py c.yaml\n"
    (launch,) = read_shell(script, "run.sh", {})
    document = lifted(read_yaml(launch.files["c.yaml"].text, "c.yaml"), launch.files["c.yaml"])
    by_name = {given.name: given for given in document.givens}
    rate, number = by_name["lr"].place, by_name["deep.n"].place
    assert rate and number and by_name["name"].place is None
    changes = [Change(rate, 2e-6), Change(number, "$8"), Addition(document.ends["deep"], ("m", 5))]
    text = edited({"run.sh": script}, changes)["run.sh"]
    (after,) = read_shell(text, "run.sh", {})
    assert yaml.safe_load(after.files["c.yaml"].text) == {
        "lr": 2e-6,
        "name": "a2.0e-06",
        "deep": {"n": "$8", "m": 5},
    }


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: !!python/object/apply:os.system [x]", "tag"),
        ("a: !ruby x", "tag"),
        ("a: !!binary aGk=", "tag"),
        (BOMB, "aliases"),
        ("a: &a\n  b: *a", "inside of what it repeats"),
        ("a: " + "[" * 500 + "]" * 500, "levels"),
        ("a: [1", "no YAML"),
        ("- a\n- b", "mapping"),
        ("? [a, b]\n: c", "no single word"),
        ("a: \x00", "not allowed"),
        ("a: b\n" * 100_000, "characters"),
        ("a: 1\n---\nb: 2", "no YAML"),
    ],
)
def test_what_is_hostile_or_no_settings_is_refused(text: str, why: str) -> None:
    began = time.process_time()
    with pytest.raises(UnreadableError, match=why):
        read_yaml(text, "a.yaml")
    assert time.process_time() - began < 2
