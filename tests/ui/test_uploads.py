"""Files that the server keeps in memory: one a session, and none that no page asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.exceptions import HTTPException

from planner.ui import uploads


class Manager:
    """What of Streamlit's the guard reaches into."""

    def __init__(self) -> None:
        self.file_storage: dict[str, dict[str, str]] = {}

    def remove_file(self, session: str, name: str) -> None:
        del self.file_storage[session][name]

    def add_file(self, session: str, file: str) -> None:
        self.file_storage.setdefault(session, {})[file] = file


@pytest.fixture
def asking() -> Iterator[dict[str, int]]:
    yield uploads._asking
    uploads._asking.clear()


def test_a_second_file_takes_the_place_of_the_first(asking: dict[str, int]) -> None:
    manager = Manager()
    add = uploads._guarded(manager, manager.add_file)
    asking.update({"one": 1, "other": 1})
    for session, file in (("one", "a"), ("other", "b"), ("one", "c"), ("one", "d")):
        add(session, file)
    assert manager.file_storage == {"one": {"d": "d"}, "other": {"b": "b"}}


def test_a_place_for_several_keeps_as_many_and_drops_the_oldest(asking: dict[str, int]) -> None:
    manager = Manager()
    add = uploads._guarded(manager, manager.add_file)
    asking["one"] = 2
    for file in ("a", "b", "c"):
        add("one", file)
    assert manager.file_storage == {"one": {"b": "b", "c": "c"}}


def test_a_session_whose_page_asks_for_none_keeps_none(asking: dict[str, int]) -> None:
    manager = Manager()
    with pytest.raises(HTTPException) as refused:
        uploads._guarded(manager, manager.add_file)("one", "a")
    assert refused.value.status_code == 403 and manager.file_storage == {}
