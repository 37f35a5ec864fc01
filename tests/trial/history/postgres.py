"""A PostgreSQL server of the tests' own: a temporary directory, a Unix socket, no network."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

NEEDED = (
    "These tests need PostgreSQL's initdb and postgres, and none were found. "
    "Debian, Ubuntu: sudo apt-get install postgresql; macOS: brew install postgresql."
)
STARTING_SECONDS = 600.0
SETTINGS = ("-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_wal_size=64MB")
"""No network. Without fsync: the tests kill clients, never the machine under the server."""


def program(name: str) -> str:
    """A program of PostgreSQL; Debian keeps them off the path."""
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    path = os.pathsep.join([*map(str, places), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.fail(NEEDED)
    return found


def unprivileged() -> dict[str, Any]:
    """PostgreSQL refuses to run as root; Debian's package made a user for it."""
    if os.geteuid() != 0:
        return {}
    return {"user": "postgres", "group": "postgres", "extra_groups": []}


@contextmanager
def server() -> Iterator[URL]:
    """A running server; the URL of its maintenance database."""
    initdb, postgres = program("initdb"), program("postgres")
    folder = Path(tempfile.mkdtemp(prefix="headroom-pg-", dir=_in_memory()))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    process = None
    try:
        data = folder / "data"
        making = [initdb, "-D", str(data), "-U", "headroom", "-A", "trust", "-E", "UTF8", "-N"]
        _run([*making, "--locale=C"], folder)
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                [postgres, "-D", str(data), "-k", str(folder), *SETTINGS],
                stdout=log,
                stderr=log,
                cwd=folder,
                **unprivileged(),
            )
        url = URL.create(
            "postgresql+psycopg",
            username="headroom",
            database="postgres",
            query={"host": str(folder)},
        )
        _wait(url, process, folder / "log")
        yield url
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)
            process.wait(30)
        shutil.rmtree(folder)


def _in_memory() -> str:
    """Where files are quick and a socket's path is short."""
    quick = Path("/dev/shm")
    roomy = quick.is_dir() and shutil.disk_usage(quick).free > 2**30
    return str(quick) if roomy and os.access(quick, os.W_OK) else "/tmp"


def execute(url: URL, *statements: str, values: Mapping[str, Any] | None = None) -> None:
    """Run statements, each by itself; ``CREATE DATABASE`` allows no transaction."""
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement), values or {})


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, **unprivileged()
    )
    assert done.returncode == 0, done.stderr


def _wait(url: URL, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + STARTING_SECONDS
    while True:
        try:
            return execute(url, "SELECT 1")
        except OperationalError:
            said = log.read_text("utf-8", "replace")
            assert process.poll() is None and time.monotonic() < end, said
            time.sleep(0.05)
