"""Words of a command as settings, beside argparse's own reading of the same words."""

from __future__ import annotations

import argparse
import random
import shlex
from typing import Any

import pytest

from planner.importer.flags import flags
from planner.importer.given import Given, Open, Place, Word
from planner.importer.kinds import DEEPEST, flat, gathered, of_kinds, typed
from planner.importer.reading import Entry, read
from planner.values.setting import Setting

NAMES = ("rate", "batch_size", "batch_count", "modules", "fast")


def taken(line: str) -> list[tuple[str, Any]]:
    words = [Word(text) for text in shlex.split(line)]
    return [(one.name, one.value) for one in flags(words, NAMES)]


def argparses(words: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for name in NAMES:
        several: Any = {"modules": "+", "fast": "?"}.get(name)
        spelled = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        const = "True" if several == "?" else None
        parser.add_argument(*spelled, nargs=several, const=const)
    return {name: value for name, value in vars(parser.parse_args(words)).items() if value}


def test_words_are_taken_apart_as_argparse_does() -> None:
    dice = random.Random(2)
    for _ in range(300):
        words: list[str] = []
        for name in dice.sample(NAMES, dice.randint(1, 5)):
            spelled = dice.choice((name, name.replace("_", "-")))
            short = {"rate": "ra", "batch_size": "batch_s", "modules": "m"}.get(name, spelled)
            spelled = dice.choice((spelled, short))
            value = dice.choice(("1", "-3", "-0.5", "x=y", "a b"))
            if name == "modules":
                words += [f"--{spelled}", *dice.choices(("q", "k", "v"), k=dice.randint(2, 3))]
            elif name == "fast" and dice.random() < 0.5:
                words.append(f"--{spelled}")
            else:
                words += dice.choice(([f"--{spelled}={value}"], [f"--{spelled}", value]))
        found = {one.name: one.value for one in flags(map(Word, words), NAMES)}
        assert found == argparses(words), words


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--no_fast", [("fast", "False")]),
        ("--no-fast --rate 1", [("fast", "False"), ("rate", "1")]),
        ("--batch 3", [("batch", "3")]),  # two begin so
        ("script.py --rate 1", [("", "script.py"), ("rate", "1")]),
        ("--rate=", [("rate", "")]),
        ("--rate '--not an option'", [("rate", "--not an option")]),
        ("-m pkg.mod", [("m", "pkg.mod")]),
    ],
)
def test_other_spellings(line: str, expected: list[tuple[str, Any]]) -> None:
    assert taken(line) == expected


def test_places_and_what_is_open_come_along() -> None:
    opens = (Open("N"),)
    words = [Word("--rate=12", Place("a.sh", 2, 10, 19)), Word("--modules"),
             Word("q", Place("a.sh", 3, 30, 31), opens), Word("k", None)]
    rate, modules = flags(words, NAMES)
    assert rate.place == Place("a.sh", 2, 17, 19)
    assert modules.place is None and modules.opens == opens


@pytest.mark.parametrize(
    ("value", "default", "expected"),
    [
        ("yes", False, True), ("0", True, False), ("8", 1, 8), ("1e3", 1, 1000), ("0.5", 1.0, 0.5),
        ("auto", 5, "auto"), ("q", [], ["q"]), ("7", None, 7), ("null", None, None),
        ("7", "text", "7"), (3, "text", 3),
    ],
)
def test_texts_become_what_a_default_is(value: Any, default: Any, expected: Any) -> None:
    found = typed(value, default)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(("value", "default"), [("maybe", True), ("many", 1), ("inf", 1.0)])
def test_texts_of_another_kind_are_refused(value: str, default: Any) -> None:
    with pytest.raises(ValueError):
        typed(value, default)


def _row(name: str, default: Any, *fields: str, unit: str = "", read: Any = None) -> Setting:
    return Setting(
        name=name, default=default, moves="both", source="", fields=fields, unit=unit, read=read
    )


def test_what_is_no_value_is_named_and_what_is_open_left() -> None:
    rows = [_row("rate", 1.0), _row("batch_size", 8, "micro_batch_size", unit="rows")]
    wrong: list[Entry] = []
    given = [Given("rate", "fast"), Given("batch_size", "0"), Given("batch_size", "$N", None,
             (Open("N"),)), Given("batch_size", "4"), Given("other", "5")]
    left = [*of_kinds(given, rows, wrong)]
    assert [(one.name, one.value) for one in left] == [
        ("batch_size", "$N"), ("batch_size", 4), ("other", 5)
    ]
    assert [(one.name, one.fields) for one in wrong] == [
        ("rate", ()), ("batch_size", ("micro_batch_size",))
    ]
    assert "rows from 1" in wrong[1].why


def test_mappings_are_taken_apart_and_sections_put_together() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = {"a": deep}
    found = [*flat([Given("x", {"y": 1, "z": {"w": 2}}), Given("v", deep), Given("e", {})])]
    assert [one.name for one in found[:2]] == ["x.y", "x.z.w"]
    assert found[2].name.count(".") == DEEPEST and found[3].value == {}
    rows = [_row("x", None), _row("k", None, "kl")]
    whole = [*gathered([*found[:2], Given("k.l", 1)], rows)]
    assert [(one.name, one.value) for one in whole] == [
        ("k.l", 1), ("x", {"y": 1, "z.w": 2})
    ]


def test_a_rows_own_error_is_a_value_that_no_field_has() -> None:
    row = _row("rate", 1, "kl", read=lambda value, values: {"kl": 1 // value})
    assert read([row], (), [Given("rate", 1)]).plan == {"kl": 1}
    for junk in (0, [], "x"):
        reading = read([row], (), [Given("rate", junk)])
        (refused,) = reading.beyond
        assert not reading.plan and "no value of rate" in refused.why
