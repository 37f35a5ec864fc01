"""A process that writes trials, for the tests of several at once and of one that is killed.

``writer.py URL FIRST COUNT`` adds so many, each in a transaction of its own, and says which are
stored. ``writer.py URL FIRST COUNT held`` adds all in one transaction and never ends it.
"""

from __future__ import annotations

import sys
import time

from sqlalchemy import insert

from planner.trial.history import History
from planner.trial.history.place import WRITES
from planner.trial.history.schema import row_of, trials
from trial.history.results import trial


def main(url: str, first: str, count: str, held: str = "") -> None:
    numbers = range(int(first), int(first) + int(count))
    print("started", flush=True)
    history = History(url)
    if not held:
        for number in numbers:
            history.add(trial(number))
            print(number, flush=True)
        return
    with history.engine.connect().execution_options(**{WRITES: True}) as connection:
        connection.begin()
        for number in numbers:
            connection.execute(insert(trials).values(row_of(trial(number))))
        print("held", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
