"""Old versions: each migration runs once, in order, and only where it is due."""

from typing import Any

import pytest

from planner.plan.migrations import FIRST_VERSION, MIGRATIONS, VERSION, migrate
from planner.plan.plan import ROWS


def _renames_lengths(fields: dict[str, Any]) -> dict[str, Any]:
    renamed = {"max_prompt": "prompt_tokens", "max_response": "response_tokens"}
    return {renamed.get(field, field): value for field, value in fields.items()}


def _adds_turns(fields: dict[str, Any]) -> dict[str, Any]:
    return {"turns": "1", **fields}


CHAIN = {1: _renames_lengths, 2: _adds_turns}, 3


def test_a_first_version_goes_through_every_migration() -> None:
    assert migrate({"max_prompt": "64", "gpus": "8"}, 1, *CHAIN) == {
        "prompt_tokens": "64",
        "gpus": "8",
        "turns": "1",
    }


def test_a_later_version_skips_what_it_has() -> None:
    assert migrate({"max_prompt": "64"}, 2, *CHAIN) == {"max_prompt": "64", "turns": "1"}
    assert migrate({"max_prompt": "64"}, 3, *CHAIN) == {"max_prompt": "64"}


@pytest.mark.parametrize("version", [4, 0, -1])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(ValueError, match=f"version {version}"):
        migrate({}, version, *CHAIN)


def test_what_is_given_stays_as_it_was() -> None:
    given = {"max_prompt": "64"}
    migrate(given, 1, *CHAIN)
    assert given == {"max_prompt": "64"}


def test_todays_version_is_that_of_the_newest_field_or_meaning() -> None:
    assert VERSION == 9, "a field or a meaning that is new: links written now say so"
    assert all(FIRST_VERSION <= each < VERSION for each in MIGRATIONS)
    assert all(FIRST_VERSION <= row.since <= VERSION for row in ROWS.values())
    assert migrate({"gpus": "8"}, VERSION) == {"gpus": "8"}
