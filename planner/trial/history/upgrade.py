"""The database's schema brought to this release's version, whatever version it has.

Migrations are in ``migrations/versions``, run by alembic in one transaction: all of them or none.
Alembic is loaded only when there is something to do.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from planner.jobs.strict import shown
from planner.trial.history.errors import SETTING, HistoryError
from planner.trial.history.place import WRITES
from planner.trial.history.schema import REVISIONS, VERSION_TABLE, trials

FOLDER = Path(__file__).parent / "migrations"
LOCK = 0x48454144
"""Number of PostgreSQL's advisory lock: one process at a time changes the schema."""


def upgrade(engine: Engine, place: str) -> None:
    """Make the tables, or bring older ones up to date; nothing when they are.

    Raises:
        HistoryError: when the schema is of a version that this release does not know.
    """
    with engine.connect() as connection:
        if _version(connection, place) == REVISIONS[-1]:
            return
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        if _version(connection, place) != REVISIONS[-1]:  # another process may have been faster
            try:
                migrate(connection, REVISIONS[-1])
            except (ValueError, KeyError, TypeError, AttributeError):
                raise HistoryError(
                    f"history: a row of {place} cannot be read, so the database cannot be brought "
                    f"to version {REVISIONS[-1]}. Nothing was changed; set {SETTING} to another "
                    "database, or restore a copy of this one."
                ) from None


def migrate(connection: Connection, to: str) -> None:
    """Run the migrations up to a version, inside the connection's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    # The setting is read with interpolation, where a percent sign means something.
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def _version(connection: Connection, place: str) -> str:
    tables = inspect(connection)
    # In this order: another process that is making both makes them visible at once.
    taken = tables.has_table(trials.name)
    if not tables.has_table(VERSION_TABLE):
        if taken:
            raise HistoryError(
                f"history: {place} has a table {trials.name} that this program did not make. "
                f"Set {SETTING} to another database."
            )
        return ""
    rows = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()
    found = str(rows[0]) if len(rows) == 1 else ""
    if rows and found not in REVISIONS:
        told = shown(found, 40, instead="?") or "several"
        raise HistoryError(
            f"history: the schema of {place} is version {told}, and this Headroom knows "
            f"versions up to {REVISIONS[-1]}. Update Headroom, or set {SETTING} to another "
            "database. Nothing was changed."
        )
    return found
