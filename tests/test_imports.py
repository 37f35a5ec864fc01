"""Objects that live as long as their process are not searched for garbage."""

from __future__ import annotations

import gc

from planner.imports import kept_for_good


def test_what_is_imported_is_never_searched() -> None:
    frozen = gc.get_freeze_count()
    with kept_for_good():
        assert not gc.isenabled()
        kept: list[list[int]] = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= frozen + len(kept)
