"""One tiny model for all tests of the pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from sampling.run import tiny


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.model(tmp_path_factory.mktemp("model"))
