"""Objects that live as long as their process are not searched for garbage."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from planner.imports import imported_for_good, kept_for_good


def test_what_is_imported_is_never_searched() -> None:
    with kept_for_good():
        assert not gc.isenabled()
        kept: list[list[int]] = [[]]
    assert gc.isenabled()
    assert not any(one is kept for one in gc.get_objects())


def test_only_a_first_import_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a dry run has made since is garbage like any other."""
    (tmp_path / "made_up_room.py").write_text("MADE = [[] for _ in range(1000)]\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = imported_for_good("made_up_room")
    try:
        since: list[list[int]] = [[]]
        assert imported_for_good("made_up_room") is module
        assert not any(one is module.MADE[0] for one in gc.get_objects())
        assert any(one is since for one in gc.get_objects())
    finally:
        del sys.modules["made_up_room"]
