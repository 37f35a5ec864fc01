"""Plans that somebody named and kept, in the database of trials: listed, renamed, deleted.

Whoever may see the trials sees them. What is read back was written by anybody: a link that is no
plan any more is listed without one, and can be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update

from planner.jobs.storage import new_identifier
from planner.plan import Plan
from planner.plan.link import from_query_string
from planner.plan.pin import checked_name
from planner.plan.query import to_query_string
from planner.trial.ask.result import TrialResult, now
from planner.trial.history.errors import HistoryError
from planner.trial.history.schema import plans, trials
from planner.trial.history.store import History

MOST = 200
"""Plans that are kept at once."""


class Kept(NamedTuple):
    """A kept plan's row. ``plan`` is None where it holds none that this release reads whole."""

    id: str
    created: str
    name: str
    link: str
    plan: Plan | None


class KeptPlans:
    """All kept plans of one history. Every call is one transaction, or none."""

    def __init__(self, history: History | None = None) -> None:
        self.history = history or History()

    def list(self) -> list[Kept]:
        """All of them, newest first."""
        query = select(plans).order_by(plans.c.created.desc(), plans.c.id.desc()).limit(MOST)
        with self.history.transaction() as connection:
            rows = connection.execute(query).mappings().all()
        read = [(row, from_query_string(row["link"])) for row in rows]
        return [Kept(**row, plan=None if said.problems else said.plan) for row, said in read]

    def keep(self, name: str, plan: Plan) -> None:
        """Keep a plan under a name that no other has.

        Raises:
            HistoryError: when the name cannot be one, or there are too many.
        """
        with self.history.transaction(writes=True) as connection:
            if connection.execute(select(func.count()).select_from(plans)).scalar_one() >= MOST:
                raise HistoryError(f"{MOST} plans are kept already. Delete one first.")
            row = (new_identifier(), now(), _free(connection, name, ""), to_query_string(plan))
            connection.execute(insert(plans).values(row))

    def rename(self, identifier: str, name: str) -> None:
        """Another name for a kept plan; ``HistoryError`` as above."""
        with self.history.transaction(writes=True) as connection:
            named = {"name": _free(connection, name, identifier)}
            connection.execute(update(plans).where(plans.c.id == identifier).values(named))

    def delete(self, identifier: str) -> None:
        """Forget a kept plan; nothing where there is none."""
        with self.history.transaction(writes=True) as connection:
            connection.execute(delete(plans).where(plans.c.id == identifier))

    def trials(self, kept: Iterable[Kept]) -> dict[str, TrialResult]:
        """The newest completed trial of each plan, by link; plans without one are left out."""
        wanted = trials.c.plan.in_([one.link for one in kept]), trials.c.status == "completed"
        query = select(trials.c.plan, trials.c.id).where(*wanted).order_by(trials.c.created)
        with self.history.transaction() as connection:
            newest = {link: identifier for link, identifier in connection.execute(query)}
        read = {link: self.history.get(identifier) for link, identifier in newest.items()}
        return {link: result for link, result in read.items() if result is not None}


def _free(connection: Connection, name: str, identifier: str) -> str:
    """The name as it is kept, where it can be one and no other plan has it."""
    try:
        checked = checked_name(name)
    except ValueError as error:
        raise HistoryError(f"The plan {error}.") from None
    taken = select(plans.c.id).where(plans.c.name == checked, plans.c.id != identifier)
    if not checked or connection.execute(taken).first() is not None:
        other = f"There is a plan called {checked} already. " if checked else ""
        raise HistoryError(f"{other}Give the plan a name of its own.")
    return checked
