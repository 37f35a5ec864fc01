"""Settings of a made-up framework, read into fields."""

from collections.abc import Mapping
from typing import Any

from planner.importer.given import Given, Open, Place
from planner.importer.reading import Entry, read
from planner.values.setting import Setting


def _offload(value: str, resolved: Mapping[str, Any]) -> Mapping[str, Any]:
    if value not in ("ram", "none"):
        raise ValueError("No field has a disk.")
    return {"offload": value, "gpus": resolved["world"]}


ROWS = (
    Setting(
        name="batch",
        default=8,
        moves="both",
        source="made/up.py, line 1",
        fields=("micro_batch_size",),
        read=lambda value, resolved: {"micro_batch_size": value},
    ),
    Setting(
        name="rows",
        default=8,
        moves="both",
        source="made/up.py, line 2",
        fields=("micro_batch_size",),
        read=lambda value, resolved: {"micro_batch_size": value},
    ),
    Setting(
        name="offload",
        default="none",
        moves="memory",
        source="made/up.py, line 3",
        fields=("offload",),
        read=_offload,
    ),
    Setting(name="world", default=1, moves="both", source="made/up.py, line 4"),
    Setting(
        name="rings",
        default=1,
        moves="memory",
        source="made/up.py, line 5",
        otherwise="Each ring lowers activations.",
    ),
)


def _names(entries: list[Entry]) -> list[str]:
    return [one.name for one in entries]


def test_what_is_given_goes_before_defaults_and_every_name_is_in_a_list() -> None:
    place = Place("run.sh", 3, 40, 42)
    found = read(
        ROWS,
        ["log", "*.color"],
        [
            Given("batch", 2, place),
            Given("rows", 2),
            Given("log.file", "x"),
            Given("a.b.color", "red"),
            Given("logs", 1),
        ],
    )
    assert found.plan == {"micro_batch_size": 2, "offload": "none", "gpus": 1}
    assert found.understood[0] == Entry("batch", 2, ("micro_batch_size",), place)
    assert _names(found.from_defaults) == ["offload"]
    assert _names(found.no_effect) == ["log.file", "a.b.color"]
    assert _names(found.unknown) == ["logs"]
    assert not found.messages


def test_a_given_setting_stands_against_a_default_and_a_sentence_says_so() -> None:
    found = read(ROWS, (), [Given("rows", 3)])
    assert found.plan["micro_batch_size"] == 3
    assert found.messages == [
        "micro_batch_size is 3 by rows and 8 by the default of batch: the plan has one, 3."
    ]


def test_the_first_of_two_given_settings_stands_and_the_last_of_one_given_twice() -> None:
    found = read(ROWS, (), [Given("rows", 3), Given("batch", 1), Given("batch", 2)])
    assert found.plan["micro_batch_size"] == 2
    assert found.messages == [
        "batch is given more than once: the last one counts.",
        "micro_batch_size is 2 by batch and 3 by rows: the plan has one, 2.",
    ]


def test_what_no_field_has_says_which_way_it_moves() -> None:
    found = read(ROWS, (), [Given("rings", 2), Given("offload", "disk"), Given("world", 1)])
    assert [(one.name, one.why) for one in found.beyond] == [
        ("offload", "No field has a disk."),
        ("rings", "Each ring lowers activations."),
    ]
    assert _names(found.understood) == ["world"]
    assert "offload" not in found.plan


def test_open_values_are_listed_and_asked_where_the_text_has_none() -> None:
    found = read(
        ROWS,
        (),
        [
            Given("batch", 4, opens=(Open("BATCH", "4"),)),
            Given("world", "$WORLD", opens=(Open("WORLD"),)),
            Given("others", "$WORLD", opens=(Open("WORLD"),)),
        ],
    )
    assert [(one.name, one.value, one.asked) for one in found.open] == [
        ("batch", 4, False),
        ("world", "$WORLD", True),
        ("others", "$WORLD", True),
    ]
    assert found.plan["micro_batch_size"] == 4
    assert found.plan["gpus"] == 1
    assert _names(found.understood) == ["batch"]


def test_what_is_asked_says_what_the_plan_has_until_then() -> None:
    found = read(ROWS, (), [Given("batch", "$BATCH", opens=(Open("BATCH"),))])
    [asked] = found.open
    assert (asked.value, asked.fields) == ("$BATCH", ("micro_batch_size",))
    assert asked.why == "8, the framework's default, until somebody says it."
    assert found.plan["micro_batch_size"] == 8 and not found.understood
