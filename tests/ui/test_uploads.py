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
def asking() -> Iterator[set[str]]:
    yield uploads._asking
    uploads._asking.clear()


def test_a_second_file_takes_the_place_of_the_first(asking: set[str]) -> None:
    manager = Manager()
    add = uploads._guarded(manager, manager.add_file)
    asking.update(("one", "other"))
    for session, file in (("one", "a"), ("other", "b"), ("one", "c"), ("one", "d")):
        add(session, file)
    assert manager.file_storage == {"one": {"d": "d"}, "other": {"b": "b"}}


def test_a_session_whose_page_asks_for_none_keeps_none(asking: set[str]) -> None:
    manager = Manager()
    with pytest.raises(HTTPException) as refused:
        uploads._guarded(manager, manager.add_file)("one", "a")
    assert refused.value.status_code == 403 and manager.file_storage == {}
