"""Trials added, found, counted and deleted. Every call is one transaction, or none.

A :class:`History` holds no open connection: threads, forks and other processes may use the same
database at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields

from sqlalchemy import URL, Connection, Select, delete, func, insert, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from planner.trial.ask.result import TrialResult
from planner.trial.evidence import proofs
from planner.trial.history import place
from planner.trial.history.errors import HistoryError, in_words
from planner.trial.history.schema import result_of, row_of, trials
from planner.trial.history.upgrade import upgrade


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which trials are meant; what is empty excludes none.

    ``device`` is ``cpu``, ``cuda``, a card's key in the catalog, or a part of a device's name;
    ``model`` a part of a model's id. ``versions`` are of torch and transformers.
    """

    method: str = ""
    model: str = ""
    device: str = ""
    gpu: str = ""
    status: str = ""
    torch_version: str = ""
    transformers_version: str = ""
    limit: int | None = None
    """The newest so many."""

    def chosen(self, query: Select[tuple[object, ...]]) -> Select[tuple[object, ...]]:
        """The query for these trials only, newest first."""
        columns = trials.c
        for name in ("method", "gpu", "status", "torch_version", "transformers_version"):
            wanted = getattr(self, name)
            if wanted:
                query = query.where(columns[name] == wanted)
        if self.model:
            query = query.where(
                func.lower(columns.model).contains(self.model.lower(), autoescape=True)
            )
        if self.device:
            named = func.lower(columns.device_name).contains(self.device.lower(), autoescape=True)
            query = query.where(
                or_(columns.device_kind == self.device.lower(), columns.gpu == self.device, named)
            )
        query = query.order_by(columns.created.desc(), columns.id.desc())
        return query if self.limit is None else query.limit(self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A trial's line in a list. ``gpu`` and versions are empty where nobody knows them."""

    id: str
    created: str
    status: str
    method: str
    model: str
    device_kind: str
    device_name: str
    gpu: str
    torch_version: str
    transformers_version: str
    censored: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What became of results that were to be added; ids."""

    added: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    """There already, and the same."""
    differing: tuple[str, ...] = ()
    """There already, and not the same: what was there stays."""


class History:
    """All trials in one database; opening it makes the tables or brings them up to date.

    Args:
        url: the database; by default what :func:`planner.trial.history.place.history_url` says.

    Raises:
        HistoryError: when the database cannot be opened, or is of a newer version.
    """

    def __init__(self, url: URL | str | None = None) -> None:
        chosen = place.history_url() if url is None else url
        self.url = place.read_url(chosen) if isinstance(chosen, str) else chosen
        self.place = place.said(self.url)
        self.own = self.url == place.own_url()
        with in_words(self.place):
            self.engine = place.engine_of(self.url)
            upgrade(self.engine, self.place)

    def add(self, *results: TrialResult) -> Added:
        """Store results, all of them or (when an error ends it) none; known ids are skipped."""
        added: list[str] = []
        known: list[TrialResult] = []
        with self.transaction(writes=True) as connection:
            for result in results:
                if _insert(connection, result):
                    added.append(result.id)
                else:
                    known.append(result)
            same = {one.id: _same(connection, one) for one in known}
        if self.own:
            for result in results:
                if result.id in added:
                    proofs.put(result)
        return Added(
            added=tuple(added),
            skipped=tuple(one.id for one in known if same[one.id]),
            differing=tuple(one.id for one in known if not same[one.id]),
        )

    def get(self, identifier: str) -> TrialResult | None:
        """One trial; None when there is none of that id.

        Raises:
            HistoryError: when the row holds something else than a trial.
        """
        with self.transaction() as connection:
            row = connection.execute(select(trials).where(trials.c.id == identifier)).first()
        return None if row is None else self._read(row)

    def list(self, filter: Filter | None = None) -> list[Summary]:
        """Lines of the trials that are meant, newest first; their parts are not read."""
        columns = (trials.c[one.name] for one in fields(Summary))
        query = (filter or Filter()).chosen(select(*columns))
        with self.transaction() as connection:
            rows = connection.execute(query).mappings().all()
        return [Summary(**row) for row in rows]

    def results(self, filter: Filter | None = None) -> Iterator[TrialResult]:
        """The trials that are meant, whole, newest first, read one at a time."""
        for line in self.list(filter):
            found = self.get(line.id)
            if found is not None:  # not deleted by somebody in between
                yield found

    def delete(self, identifiers: Iterable[str]) -> int:
        """Delete trials; returns how many there were."""
        meant = list(identifiers)
        with self.transaction(writes=True) as connection:
            count = sum(
                connection.execute(delete(trials).where(trials.c.id == identifier)).rowcount
                for identifier in meant
            )
        if self.own:
            for identifier in meant:
                proofs.drop(identifier)
        return count

    def count(self) -> int:
        """How many trials there are."""
        with self.transaction() as connection:
            return int(connection.execute(select(func.count()).select_from(trials)).scalar_one())

    @contextmanager
    def transaction(self, writes: bool = False) -> Iterator[Connection]:
        """A connection in a transaction of its own; errors of the database as sentences."""
        with in_words(self.place):
            opened = self.engine.connect().execution_options(**{place.WRITES: writes})
            with opened as connection, connection.begin():
                yield connection

    def _read(self, row: object) -> TrialResult:
        try:
            return result_of(row)
        except (ValueError, RecursionError) as error:
            name = getattr(row, "id", "?")
            raise HistoryError(
                f"history: the row {name} of {self.place} holds no trial: {error} "
                f"Delete it: planner trials --delete {name}"
            ) from None


def _insert(connection: Connection, result: TrialResult) -> bool:
    """Whether there was no trial of that id; of two that are added at once one wins.

    Without savepoints: SQLite ends the whole transaction when the disk is full, and the error of
    a savepoint that is gone would hide the reason.
    """
    values = row_of(result)
    own = {"sqlite": sqlite, "postgresql": postgresql}.get(connection.dialect.name)
    if own is not None:
        query = own.insert(trials).values(values).on_conflict_do_nothing(index_elements=["id"])
        return connection.execute(query.returning(trials.c.id)).first() is not None
    if connection.execute(select(trials.c.id).where(trials.c.id == result.id)).first() is not None:
        return False
    connection.execute(insert(trials).values(values))
    return True


def _same(connection: Connection, result: TrialResult) -> bool:
    row = connection.execute(select(trials).where(trials.c.id == result.id)).first()
    with suppress(ValueError, RecursionError):
        return row is not None and result_of(row) == result
    return False
