"""Trials of the tests are kept in the tests' own folders, whatever the person's settings say."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADROOM_HISTORY_URL", raising=False)
