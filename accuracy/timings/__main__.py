"""``python -m accuracy.timings``: the half that may be looked at; see ``--help`` for the rest."""

from __future__ import annotations

import argparse
import datetime as dt

from accuracy.timings import intervals, report
from accuracy.timings.compare import results

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m accuracy.timings", description=__doc__)
    parser.add_argument(
        "--final", action="store_true", help="score the held half; rows are shown the first time"
    )
    parser.add_argument(
        "--intervals", action="store_true", help="write planner/catalog/time_errors.json"
    )
    asked = parser.parse_args()
    if asked.intervals:
        print(intervals.write())
    elif asked.final:
        held, left = results("held", final=True)
        words = intervals.words(*map(intervals.usable, (results("seen")[0], held)))
        first = not report.HELD.exists()
        report.record(dt.date.today().isoformat(), words)
        print(report.side(held, left) if first else report.medians(held), words, sep="\n\n")
    else:
        print(report.side(*results("seen")))
