"""Every test of the history runs on SQLite and on a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import URL

from trial.history.postgres import execute, server

NAMES = count()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[URL]:
    with server() as url:
        yield url


@pytest.fixture
def postgres_url(postgresql: URL) -> str:
    name = f"trials_{next(NAMES)}"
    execute(postgresql, f"CREATE DATABASE {name}")
    return postgresql.set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'data' / 'trials.sqlite'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(
        {"sqlite": "sqlite_url", "postgresql": "postgres_url"}[request.param]
    )
    return found
