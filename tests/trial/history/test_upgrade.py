"""The schema from an empty database and from every earlier version, with rows in it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert, inspect, select

from planner.trial.history import Filter, History, HistoryError
from planner.trial.history.place import WRITES, engine_of, read_url
from planner.trial.history.schema import REVISIONS, VERSION_TABLE, metadata, row_of, trials
from planner.trial.history.upgrade import FOLDER, migrate
from trial.history.results import PROCESSOR, trial
from trial.running import ROOT

ADDED_BY_2 = ("gpu", "torch_version", "transformers_version", "censored")


def test_the_versions_are_those_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    scripts = ScriptDirectory.from_config(config)
    assert tuple(reversed([one.revision for one in scripts.walk_revisions()])) == REVISIONS


def test_the_migrations_make_what_the_program_expects(url: str) -> None:
    history = History(url)
    with history.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        found = {one["name"] for one in inspect(connection).get_indexes(trials.name)}
    assert {f"headroom_trials_{name}" for name in ("method", "gpu", "torch_version")} <= found


def test_rows_of_version_1_are_brought_along(url: str) -> None:
    engine = engine_of(read_url(url))
    rows = [
        trial(1),
        trial(2, status="killed", censored=True, environment=None, device=PROCESSOR),
    ]
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        migrate(connection, "1")
        columns = {one["name"] for one in inspect(connection).get_columns(trials.name)}
        assert columns == set(trials.columns.keys()) - set(ADDED_BY_2)
        for result in rows:
            values = {name: v for name, v in row_of(result).items() if name in columns}
            connection.execute(insert(trials).values(values))
    history = History(url)
    assert [history.get(one.id) for one in rows] == rows
    with engine.connect() as connection:
        found = connection.execute(select(trials).order_by(trials.c.id)).mappings().all()
    for result, row in zip(rows, found, strict=True):
        wanted = row_of(result)
        assert {name: row[name] for name in ADDED_BY_2} == {n: wanted[n] for n in ADDED_BY_2}
    assert [line.id for line in history.list(Filter(gpu="h100-80gb"))] == [rows[0].id]


def test_a_migration_that_fails_changes_nothing(url: str) -> None:
    engine = engine_of(read_url(url))
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        migrate(connection, "1")
        values = {name: v for name, v in row_of(trial(1)).items() if name not in ADDED_BY_2}
        connection.execute(insert(trials).values({**values, "rest": "{"}))
    with pytest.raises(HistoryError, match="Nothing was changed"):
        History(url)
    with engine.connect() as connection:
        tables = inspect(connection)
        columns = {one["name"] for one in tables.get_columns(trials.name)}
        version = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
    assert version == "1" and not columns & set(ADDED_BY_2)


def test_a_history_that_is_up_to_date_loads_no_alembic(sqlite_url: str) -> None:
    History(sqlite_url)
    code = (
        "import sys; from planner.trial.history import History; History(sys.argv[1]); "
        "print({'alembic', 'torch', 'streamlit', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, sqlite_url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"
