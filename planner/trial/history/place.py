"""Where the history is: a SQLite file in the user's data directory, or any SQLAlchemy URL.

SQLite waits for other writers, keeps a write-ahead log and syncs at every commit, so that a
process or a machine that stops takes nothing with it that was said to be stored.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from planner.jobs.storage import data_folder
from planner.trial.ask.folders import HISTORY_FILE
from planner.trial.history.errors import SETTING, HistoryError

BUSY_SECONDS = 30.0
"""For so long a writer waits for others."""
CONNECT_SECONDS = 10
WRITES = "headroom_writes"
"""Execution option of a transaction that is going to write."""


def history_url() -> URL:
    """What ``HEADROOM_HISTORY_URL`` says, or the file in the user's data directory.

    Raises:
        HistoryError: when the setting is no URL of a database.
    """
    given = os.environ.get(SETTING, "").strip()
    return read_url(given) if given else own_url()


def own_url() -> URL:
    """The file in the user's data directory."""
    return URL.create("sqlite", database=str(data_folder() / HISTORY_FILE))


def read_url(text: str) -> URL:
    """A database's URL; PostgreSQL's is read as psycopg's, whichever way it is written.

    Raises:
        HistoryError: when it is none. The text is not repeated, since it may hold a password.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise HistoryError(
            f"history: {SETTING} is no URL of a database. Write a URL like "
            "sqlite:////home/me/trials.sqlite or postgresql://me:secret@host/name."
        ) from None
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise HistoryError(
            f"history: {SETTING} names a SQLite database in memory, which keeps nothing. "
            "Name a file."
        )
    return url


def said(url: URL) -> str:
    """The database as a person knows it: a file's path, or the URL without its password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(query={}).render_as_string(hide_password=True)


def engine_of(url: URL) -> Engine:
    """An engine that opens a connection whenever one is needed, and leaves none open.

    Raises:
        HistoryError: when the database's driver is missing.
        OSError: when SQLite's folder cannot be made.
    """
    sqlite = url.get_backend_name() == "sqlite"
    if sqlite:
        Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    try:
        engine = create_engine(url, poolclass=NullPool, connect_args=_arguments(url))
    except (NoSuchModuleError, ImportError) as error:
        driver = getattr(error, "name", None) or url.drivername
        raise HistoryError(
            f"history: {url.get_backend_name()} needs the driver {driver}, which is not "
            f"installed. For PostgreSQL: pip install 'psycopg[binary]'."
        ) from None
    if sqlite:
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    return engine


def _arguments(url: URL) -> dict[str, Any]:
    if url.get_backend_name() == "sqlite":
        return {"timeout": BUSY_SECONDS}
    if url.get_driver_name() == "psycopg" and "connect_timeout" not in url.query:
        return {"connect_timeout": CONNECT_SECONDS}
    return {}


def _prepare(connection: Any, _: Any) -> None:
    """Settings of one SQLite connection; transactions are begun by :func:`_begin` alone."""
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
        cursor.execute("PRAGMA foreign_keys = ON")
        _keep_a_log(cursor)
        cursor.execute("PRAGMA synchronous = FULL")
    finally:
        cursor.close()


def _keep_a_log(cursor: Any) -> None:
    """Write-ahead log. SQLite does not wait for others when it changes to it, so this does."""
    if cursor.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        return
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except Exception as error:
            busy = str(getattr(error, "sqlite_errorname", "")).startswith("SQLITE_BUSY")
            if not busy or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later could lose a race it cannot wait for.
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
