"""A worker that measures layers, and keeps what it measures apart from this machine's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planner.catalog import spot
from planner.dryrun.ask.port import Port


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADROOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(spot, "_known", {})
        port = Port()
        yield port
        port.close()
