"""Disks that are full, folders that may not be written, databases of others: said in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import request_of
from planner.trial.history import History, HistoryError
from planner.trial.history.intake import keep, keep_all
from planner.trial.history.upgrade import _version
from trial.history.results import PLAN, trial
from trial.running import ROOT

FULL_DISK = """
CREATE FUNCTION full_disk() RETURNS trigger AS
$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$
LANGUAGE plpgsql;
"""


def fill(history: History) -> None:
    """Let the database have no more room, as its own engine says that."""
    if history.url.get_backend_name() == "sqlite":

        def limit(connection: Any, _: Any) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 2}")

        event.listen(history.engine, "connect", limit)
    else:
        with history.engine.begin() as connection:
            connection.execute(text(FULL_DISK))
            connection.execute(
                text(
                    "CREATE TRIGGER full_disk BEFORE INSERT ON headroom_trials "
                    "EXECUTE FUNCTION full_disk()"
                )
            )


def folder_with(number: int, root: Path) -> TrialFolder:
    folder = TRIALS.new(request_of(PLAN), root)
    folder.finish(trial(number, notes=("n" * 2000,) * 50))
    return folder


def test_a_full_disk_is_said_and_what_was_stored_stays(url: str, tmp_path: Path) -> None:
    history = History(url)
    history.add(trial(1), trial(2))
    fill(history)
    folder = folder_with(3, tmp_path)
    with pytest.raises(HistoryError, match="no room left") as error:
        keep(folder, history)
    assert str(folder.result_file) in str(error.value)
    assert "nothing was added" in str(error.value)
    assert folder.result() is not None
    assert [line.id for line in history.list()] == [trial(2).id, trial(1).id]
    assert history.get(trial(1).id) == trial(1)


def test_a_result_that_could_not_be_stored_is_stored_later(sqlite_url: str, tmp_path: Path) -> None:
    full = History(sqlite_url)
    fill(full)
    folder = folder_with(3, tmp_path)
    with pytest.raises(HistoryError):
        keep_all(full, tmp_path)
    assert keep_all(History(sqlite_url), tmp_path) == 1
    assert keep_all(History(sqlite_url), tmp_path) == 0
    assert [line.id for line in full.list()] == [trial(3).id]
    # Deleted from the history, it does not come back by itself.
    full.delete([trial(3).id])
    assert not keep(folder, History(sqlite_url))


def test_a_trial_under_way_or_damaged_is_left_alone(sqlite_url: str, tmp_path: Path) -> None:
    TRIALS.new(request_of(PLAN), tmp_path)
    (TRIALS.new(request_of(PLAN), tmp_path).path / "result.json").write_text("{")
    assert keep_all(History(sqlite_url), tmp_path) == 0


NOBODY = """
import os, sys
from planner.trial.history import History
import alembic.command, alembic.config
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    History(sys.argv[1])
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_that_may_not_be_written_is_said(there: bool, tmp_path: Path) -> None:
    """Root may write anywhere, so another user tries."""
    folder = tmp_path / "data"
    folder.mkdir()
    url = f"sqlite:///{folder}/trials.sqlite"
    if there:
        History(url).add(trial(1))
    folder.chmod(0o500)
    try:
        for parent in (tmp_path, *tmp_path.parents):
            if os.geteuid() == 0 and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
        done = subprocess.run(
            [sys.executable, "-c", NOBODY, url],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
    finally:
        folder.chmod(0o700)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"history: {folder}/trials.sqlite cannot be written")
    assert "HEADROOM_DATA" in done.stdout and "HEADROOM_HISTORY_URL" in done.stdout
    if there:
        assert History(url).get(trial(1).id) == trial(1)


def test_a_server_that_lets_nobody_write_is_said(postgres_url: str) -> None:
    history = History(postgres_url)
    history.add(trial(1))
    reading = History(postgres_url + "&options=-c%20default_transaction_read_only%3Don")
    assert reading.get(trial(1).id) == trial(1)
    with pytest.raises(HistoryError, match="lets nobody write"):
        reading.add(trial(2))


@pytest.mark.parametrize("content", [b"no database at all, but some text" * 100])
def test_a_file_that_is_no_database_is_said(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "trials.sqlite").write_bytes(content)
    with pytest.raises(HistoryError, match="damaged or no database"):
        History(f"sqlite:///{tmp_path}/trials.sqlite")
    assert (tmp_path / "trials.sqlite").read_bytes() == content


@pytest.mark.parametrize("version", ["4", "3.1", "nonsense\x1b[2J"])
def test_a_newer_schema_is_refused_and_left_alone(url: str, version: str) -> None:
    history = History(url)
    history.add(trial(1))
    with history.engine.begin() as connection:
        connection.execute(
            text("UPDATE headroom_schema SET version_num = :version"), {"version": version}
        )
    with pytest.raises(HistoryError, match="knows versions up to 3") as error:
        History(url)
    assert str(error.value).isprintable()
    assert version[:3] in str(error.value)
    with history.engine.begin() as connection:
        connection.execute(text("UPDATE headroom_schema SET version_num = '3'"))
    assert History(url).get(trial(1).id) == trial(1)


def test_a_table_of_somebody_else_is_left_alone(url: str, tmp_path: Path) -> None:
    history = History(url)
    with history.engine.begin() as connection:
        connection.execute(text("DROP TABLE headroom_schema"))
    with pytest.raises(HistoryError, match="did not make"):
        History(url)
    with history.engine.connect() as connection, pytest.raises(HistoryError):
        _version(connection, "it")
