"""What can go wrong with the history's database, each in a sentence that says what to do.

A database's own messages hold statements, parameters and passwords, and are for its developers;
a person reads what happened, that nothing stored is lost, and the setting to change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from planner.jobs.strict import shown
from planner.trial.ask.folders import HISTORY_SETTING

SETTING = HISTORY_SETTING
"""Environment variable with the database's URL."""


class HistoryError(ValueError):
    """The history cannot do what was asked; the message is one sentence or two."""


@contextmanager
def in_words(place: str) -> Iterator[None]:
    """Turns errors of a database into :class:`HistoryError`.

    Args:
        place: which database, as a person knows it, without its password.
    """
    try:
        yield
    except DBAPIError as error:
        raise HistoryError(_sentence(error.orig, place)) from None
    except SQLAlchemyError as error:
        raise HistoryError(f"history: {place} cannot be used: {_line(error)}.") from None
    except OSError as error:
        raise HistoryError(_refused(place, error.strerror or "it cannot be written")) from None


def _sentence(error: BaseException | None, place: str) -> str:
    name = getattr(error, "sqlite_errorname", "") or ""
    state = getattr(error, "sqlstate", "") or ""
    if name == "SQLITE_FULL" or state == "53100":
        return (
            f"history: there is no room left for {place}. Everything stored is unharmed "
            "and nothing was added; free some space and try again."
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return _refused(place, "it cannot be opened for writing")
    if state in ("42501", "25006"):
        return _refused(place, "its owner lets nobody write there")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or state in ("55P03", "57014"):
        return f"history: {place} is in use by another process for too long. Try again."
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")):
        return (
            f"history: {place} is damaged or no database. Replace it with a copy, or move it "
            f"away and import an export; {SETTING} can name another database."
        )
    if name.startswith("SQLITE_IOERR"):
        return (
            f"history: the disk refused to read or write {place}. SQLite's journal protects "
            "what was stored before; check the disk's space and health."
        )
    if not isinstance(error, sqlite3.Error) and not state:
        return (
            f"history: {place} cannot be reached: {_line(error)}. "
            f"Start the server, or correct {SETTING}."
        )
    return f"history: {place} refused: {_line(error)}."


def _refused(place: str, why: str) -> str:
    return (
        f"history: {place} cannot be written: {why}. Set HEADROOM_DATA to a folder that you may "
        f"write to, or {SETTING} to a database's URL."
    )


def _line(error: BaseException | None) -> str:
    return shown(" ".join(str(error).split()).rstrip("."), 200, instead="?")
