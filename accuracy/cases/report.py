"""docs/cases.md: one table of every case's plans, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accuracy.cases import draw
from accuracy.cases.compare import DIED, FITS, RAN, REFUSED, Answered, answered, read
from planner.footprint import Footprint
from planner.units import read_gib

LONGEST = 150
"""Characters of a refusal in the table."""

INTRODUCTION = """# Public cases

Written by `.venv/bin/python -m accuracy.cases`; `tests/accuracy/test_cases.py` holds it.

{count} public reports and launch scripts, read on {day}, each typed in as a plan as its author
would do it. *Reported* is how the run of exactly that plan ended; the cell is empty if the run
differs from the plan (another GPU, another framework's loss). *Before* is the verdict at {before}.
A **false fit** is a plan that is said to fit although its run died. A false fit costs a person
days, so none is allowed, except for the two cases counted separately, whose cause is open.
"""

TOTALS = """
| | before | now |
|---|---:|---:|
| plans of runs that died | {died} | {died} |
| … of them said to fit | {false_before} | {false_now} |
| … reported apart and said to fit | {apart_before} | {apart_now} |
| plans of runs that ran | {ran} | {ran} |
| … of them said to fit | {kept_before} | {kept_now} |
| plans refused | {refused_before} | {refused_now} |
"""


def text() -> str:
    """The document."""
    rows, data = answered(), read()
    died = [row for row in rows if row.ended == DIED]
    counted = [row for row in died if not row.case.get("apart")]
    apart = [row for row in died if row.case.get("apart")]
    ran = [row for row in rows if row.ended == RAN]
    introduction = INTRODUCTION.format(
        count=len(data["rows"]), day=data["read"], before=data["before"]
    )
    totals = TOTALS.format(
        died=len(died),
        false_before=_said(counted, before=True),
        false_now=_said(counted),
        apart_before=_said(apart, before=True),
        apart_now=_said(apart),
        ran=len(ran),
        kept_before=_said(ran, before=True),
        kept_now=_said(ran),
        refused_before=sum(row.before == REFUSED for row in rows),
        refused_now=sum(row.word == REFUSED for row in rows),
    )
    head = introduction, totals.strip("\n"), ""
    return "\n".join((*head, *_table(rows), *_lost(rows), draw.text()))


def _said(rows: Sequence[Answered], before: bool = False) -> int:
    return sum((row.before if before else row.word) == FITS for row in rows)


def _table(rows: Sequence[Answered]) -> Iterator[str]:
    yield "## Case by case"
    yield ""
    yield "| case | plan | reported | before | said | error | cause of what differs |"
    yield "|---|---|---|---|---|---:|---|"
    for row in rows:
        case, error = row.case, row.error
        name = f"[{case['id']}]({case['url']}) {case['framework']}: {case['method']} of "
        name += f"{case['model']}, {case['gpus']}. {case['outcome']}"
        measured = row.measured
        how = f"; {measured['gib']} GiB ({measured['how']})" if measured else ""
        yield (
            f"| {name if not row.number else case['id']} | `{row.plan.replace('|', '%7C')}` | "
            f"{row.ended}{how} | {row.before} | {_words(row)} | "
            f"{'' if error is None else format(error, '+.1%')} | "
            f"{'' if row.number else case['cause']} |"
        )
    yield ""


def _words(row: Answered) -> str:
    if row.footprint is None:
        refusal = row.refusal.replace("|", "/")
        return f"refused: {refusal[:LONGEST]}{'…' if len(refusal) > LONGEST else ''}"
    return f"{row.word}: {_gib(row.footprint)}"


def _gib(footprint: Footprint) -> str:
    low, high = read_gib(footprint.low_bytes), read_gib(footprint.high_bytes)
    host = footprint.host_bytes
    beside = f"; host {read_gib(host)}" if host else ""
    if host and footprint.plan.host_ram_per_node:
        most = read_gib(footprint.host_high_bytes or host)
        beside += f" (up to {most}) of {read_gib(footprint.plan.host_ram_per_node)}"
    return (
        f"{read_gib(footprint.device_bytes)} [{low} to {high}] of "
        f"{read_gib(footprint.budget_bytes)} GiB{beside}"
    )


def _lost(rows: Sequence[Answered]) -> Iterator[str]:
    """What is answered less well than before, by name."""
    lost = [row for row in rows if row.lost]
    refused = [row for row in rows if row.newly_refused]
    for lead, some in (
        ("Plans that ran and were said to fit before, but are not now", lost),
        ("Plans answered before and refused now", refused),
    ):
        names = ", ".join(f"{row.case['id']} plan {row.number}" for row in some)
        yield f"{lead}: {names or 'none'}."
        yield ""
