"""``python -m accuracy.pinned``: three thousand random plans beside what they were told before.

Without arguments beside the committed table. ``--against COMMIT`` prints every figure and sentence
that the commit's files tell otherwise, each term and each candidate instant among them, then the
same counted by phase and place. ``--write`` writes the table anew, ``--draw`` with plans drawn anew
(docs/pinned.md). Exits with 1 where anything is another.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from accuracy.pinned import record, table
from accuracy.pinned.differences import Difference, differences, summary
from accuracy.pinned.drawing import drawn
from benchmarks.against import ROOT, files_of
from planner.plan.query import to_query_string

PLANS = 3000


def recorded(folder: Path, links: Sequence[str]) -> Iterator[record.Record]:
    """What the files of a folder say of each link, by their own recorder where they have one."""
    own = folder / "accuracy" / "pinned" / "record.py"
    program = [sys.executable, "-P", str(own if own.exists() else Path(record.__file__))]
    with tempfile.TemporaryFile("w+") as asked:
        asked.writelines(f"{link}\n" for link in links)
        asked.seek(0)
        paths = {**os.environ, "PYTHONPATH": str(folder)}
        run = subprocess.Popen(
            program, cwd=folder, env=paths, stdin=asked, stdout=subprocess.PIPE, text=True
        )
    assert run.stdout is not None
    with run:
        yield from map(json.loads, run.stdout)
    if run.returncode:
        raise SystemExit(f"{program[-1]} failed in {folder}")


def against(commit: str, links: Sequence[str]) -> bool:
    """Print what the commit tells otherwise; whether it does."""
    found: list[Difference] = []
    with files_of(commit) as folder:
        both = zip(recorded(folder, links), recorded(ROOT, links), strict=True)
        for number, (link, (before, after)) in enumerate(zip(links, both, strict=True)):
            other = [*differences(before, after)]
            if other:
                print(f"plan {number}: {link}", *other, sep="\n  ")
            found += other
    print(f"{len(found)} differences in {len(links)} plans", *summary(found), sep="\n")
    return bool(found)


def beside_the_table(rows: Sequence[table.Row]) -> bool:
    """Print what of the table's plans moved; whether anything did."""
    plans = 0
    for number, row in enumerate(rows):
        found = [*table.moved(row, table.row_of(row.link, record.record(row.link)))]
        if found:
            print(f"plan {number}: {row.link}", *found, sep="\n  ")
        plans += bool(found)
    print(f"{plans} of {len(rows)} plans moved")
    return bool(plans)


def main() -> bool:
    """Whether anything moved."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.pinned", description=__doc__)
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit's files")
    parser.add_argument("--plans", metavar="N", type=int, default=PLANS, help="the first N plans")
    parser.add_argument("--write", action="store_true", help="write the table anew")
    parser.add_argument("--draw", action="store_true", help="draw the plans anew, and write")
    asked = parser.parse_args()
    if asked.draw:
        links = [to_query_string(plan, short=True) for plan in drawn(asked.plans)]
    else:
        rows = table.read(asked.plans)
        links = [row.link for row in rows]
    if asked.draw or asked.write:
        table.write([table.row_of(link, record.record(link)) for link in links])
        print(f"wrote {len(links)} plans to {table.FILE.name}; explain every delta in docs/notes")
        return False
    return against(asked.against, links) if asked.against else beside_the_table(rows)


if __name__ == "__main__":
    sys.exit(main())
