"""A trial of this planner: its record in JSON, in a log or alone, and the table that it prints.

The record is exact and is kept whole; the table has a tenth of a GiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from planner.importer.lines import Log
from planner.importer.logs.measured import Figure, Measured, Quantity
from planner.importer.memory_errors.message import UNITS
from planner.trial.ask.result import TrialResult, read_result, result_json
from planner.units import TIMES

FORM = "a trial of this planner"
HINTS = ('"source":"trial"', '"source": "trial"')
MOST_RECORDS = 8
"""Of several the last one counts."""
QUANTITIES: tuple[Quantity, ...] = (
    *("requested_bytes", "allocated_bytes", "reserved_bytes", "device_bytes", "host_bytes"),
    "seconds",
)
_NAMED = re.compile(r"Trial ([a-z0-9-]{6,64}) on .{1,200}: completed\.")
_HEADER = re.compile(
    r"phase +dry run, \w{1,20}( +measured, (requested|reserved))( +difference)( +time) +first step"
)
_CELL = re.compile(r" *([\d,]{1,12}(?:\.\d{1,4})?) (\w{1,5})")


def read(log: Log) -> Measured | None:
    """What the last record says, else the table; None where there is neither."""
    for text in _texts(log):
        try:
            return _recorded(read_result(text))
        except ValueError:
            continue
    figures = tuple(_table(log))
    found = (_NAMED.match(log[at].text) for at in log.having(("Trial ",)))
    named = next((one[1] for one in found if one is not None), "ID")
    note = f"The table is rounded: `python -m planner trials --show {named}` prints the record."
    return Measured(form=FORM, steps=0, figures=figures, notes=(note,)) if figures else None


def _texts(log: Log) -> Iterator[str]:
    """Lines that may be a record, the last one first; and the text, which may be one of many."""
    lines = log.text.split("\n") if any(hint in log.text for hint in HINTS) else []
    having = [one for one in lines if any(hint in one for hint in HINTS)]
    for line in reversed(having[-MOST_RECORDS:]):
        yield line[max(line.find("{"), 0) :].rstrip(", ")
    if having and log.text.lstrip().startswith("{"):
        yield log.text


def _recorded(result: TrialResult) -> Measured:
    phases = result.measured.phases if result.measured is not None else ()
    figures = [
        Figure(f"{one.name}, {name.partition('_')[0]}", name, value, (one.name,))
        for one in phases
        if one.rank == "trainer"
        for name in QUANTITIES
        if (value := getattr(one, name)) is not None
    ]
    return Measured(
        form=FORM,
        steps=result.steps,
        figures=tuple(figures),
        notes=(f"It ran on {result.where}: {result.status}. {result.reason}".strip(),),
        censored=result.censored,
        record=result_json(result),
    )


def _table(log: Log) -> Iterator[Figure]:
    """Rows below the header, whose right ends are those of the columns."""
    at = next(iter(log.having((" measured, re",))), len(log))
    header = _HEADER.match(log[at].text) if at < len(log) else None
    if header is None:
        return
    size: Quantity = "requested_bytes" if header[2] == "requested" else "reserved_bytes"
    times = {unit: scale for scale, unit in TIMES}
    columns: tuple[tuple[int, Quantity, Mapping[str, float]], ...] = (
        *((1, size, UNITS), (4, "seconds", times)),
    )
    for row in range(at + 1, len(log)):
        if not (text := log[row].text):
            return
        name = re.split(r" {2,}", text, maxsplit=1)[0]
        for column, quantity, units in columns:
            cell = _CELL.fullmatch(text[slice(*header.span(column))])
            if cell is not None and cell[2] in units:
                words, value = quantity.partition("_")[0], float(cell[1].replace(",", ""))
                yield Figure(f"{name}, {words}", quantity, value * units[cell[2]], (name,))
