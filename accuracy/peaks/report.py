"""The section of docs/accuracy.md about measured peaks of public runs: groups, not rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from accuracy.peaks import replay
from accuracy.peaks.causes import CAUSES
from accuracy.peaks.compare import Compared
from accuracy.peaks.mapping import results
from accuracy.peaks.rows import LEVELS, rows, sources
from planner.units import GIB

INTRODUCTION = """
Figures that public repositories state of {rows} runs on real GPUs (`accuracy/peaks/rows.json`:
figures and settings, no text; {sources}). {planned} rows become a plan; every other row is counted
under the one reason that keeps it from being one. Nothing in the planner was fitted to any of
these runs. {compared} ran and are compared at the level that was measured: *allocated* and
*reserved* by torch's counters, *device* by nvidia-smi, *stated* where a README's rounded figure
does not say how it was read (compared with reserved). {ended} ended without a result and are
judged below.

*Estimate* is what the tool says of the row's plan. *Completed* adds, at the instants to which they
belong, the bytes that the run's own source holds and no field of a plan says (listed below, with
the source read); it shows that the cause is known, and promises nothing. Errors are signed:
negative is too low. *High confidence* are figures by torch's counters or nvidia-smi of runs whose
settings the source states; *stated settings* leaves out the rows of which only the mean length is
known; *a plan says it all* keeps of those the rows to which nothing has to be added at the peak.
"""

HEAD = (
    "| rows | level | count | median | mean | p5 | p95 | p95 of size "
    "| completed: median | p5 | p95 |"
)
RULE = "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"


def text() -> str:
    """The section."""
    found, left = results()
    ran = [item for item in found if item.row.outcome == "ran"]
    parts = [
        INTRODUCTION.format(
            rows=len(rows()),
            planned=len(found),
            compared=len(ran),
            ended=len(found) - len(ran),
            sources=", ".join(f"{name} {_read(told)}".strip() for name, told in sources().items()),
        ),
        "\n".join([HEAD, RULE, *_groups(ran)]),
        _above(ran),
        replay.text(ran),
        "The worst row of each group:\n\n" + _worst(ran),
        "What was assumed:\n\n" + _assumed(found),
        _ended([item for item in found if item.row.outcome != "ran"]),
        "Rows without a plan, by reason:\n\n" + _left([reason for _, reason in left]),
    ]
    return "\n\n".join(part.strip("\n") for part in parts)


def _read(told: object) -> str:
    return f"({', '.join(told.values())})" if isinstance(told, dict) and told else ""


def _groups(ran: Sequence[Compared]) -> Iterable[str]:
    high = [item for item in ran if item.row.confidence == "high"]
    yield from _lines("**high confidence**", high)
    yield from _lines("**high confidence, stated settings**", [it for it in high if it.stated])
    yield from _lines("**the same, a plan says it all**", [it for it in high if it.whole])
    for group in dict.fromkeys(item.how.group for item in ran):
        yield from _lines(group, [item for item in ran if item.how.group == group])


def _lines(name: str, items: Sequence[Compared]) -> Iterable[str]:
    for level in LEVELS:
        at = [item for item in items if level in item.row.peaks]
        if not at:
            continue
        errors = np.array([item.error(level) for item in at])
        more = np.array([item.completed_error(level) for item in at])
        figures = [np.median(errors), errors.mean(), *np.percentile(errors, [5, 95])]
        figures += [np.percentile(abs(errors), 95)]
        figures += [np.median(more), *np.percentile(more, [5, 95])]
        shown = " | ".join(_percent(float(figure)) for figure in figures)
        yield f"| {name} | {level} | {len(at)} | {shown} |"


def _percent(error: float) -> str:
    return f"{100 * error:+.1f} %"


def _above(ran: Sequence[Compared]) -> str:
    """How many rows the driver saw above the estimate's upper bound."""
    at = [item for item in ran if "device" in item.row.peaks]
    above = [item for item in at if item.row.peaks["device"] > item.high_device]
    still = [item for item in above if item.row.peaks["device"] > item.high_completed]
    wide = np.median([item.high_device / item.estimated["device"] - 1 for item in at])
    listed = ", ".join(
        f"{item.row.id} {(item.row.peaks['device'] - item.high_completed) / GIB:+.2f} GiB"
        for item in still
    )
    return (
        f"Rows whose measured device bytes exceed the estimate's upper bound: {len(above)} of "
        f"{len(at)}; with the bytes that no field states added, {len(still)}"
        f"{f': {listed}' if still else ''}. The median distance of the upper bound from the centre "
        f"is {_percent(float(wide))}."
    )


def _worst(ran: Sequence[Compared]) -> str:
    lines = [
        "| row | level | measured, GiB | estimate | error | completed | peak | cause |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for group in dict.fromkeys(item.how.group for item in ran):
        items = [item for item in ran if item.how.group == group]
        for level in LEVELS:
            at = [item for item in items if level in item.row.peaks]
            if not at:
                continue
            item = max(at, key=lambda one, level=level: abs(one.error(level)))  # type: ignore[misc]
            lines.append(
                f"| {item.row.id} | {level} | {item.row.peaks[level] / GIB:.2f} "
                f"| {item.estimated[level] / GIB:.2f} | {_percent(item.error(level))} "
                f"| {_percent(item.completed_error(level))} | {item.instant} "
                f"| {_cause(item, level)} |"
            )
    return "\n".join(lines)


def _cause(item: Compared, level: str) -> str:
    """Named causes: what the row's source adds at its peak, then what is known of the group."""
    said = [f"{added.why} ({added.bytes / GIB:+.2f} GiB)" for added in item.additions]
    known = CAUSES.get((item.how.group, level), CAUSES.get(("", level), ""))
    within = abs(item.completed_error(level)) < 0.03
    return "; ".join(said + ([] if within or not known else [known])) or "within 3 %"


def _assumed(found: Sequence[Compared]) -> str:
    each = Counter(item.how.assumed for item in found)
    return "\n".join(f"- {count} rows: {words}." for words, count in each.items())


def _ended(items: Sequence[Compared]) -> str:
    words = Counter(item.verdict for item in items)
    said = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
    wrong = [
        f"- {item.row.id} ({item.row.model}, {item.row.gpus} × {item.row.gpu}): "
        f"{CAUSES[item.row.id, 'verdict']}"
        for item in items
        if item.verdict == "fits"
    ]
    listed = ":\n\n" + "\n".join(wrong) if wrong else "."
    return (
        f"**Rows that ended out of memory, or without a result.** Of {len(items)} with a plan the "
        f"estimate says: {said}. Called fits: {len(wrong)}{listed}"
    )


def _left(reasons: Sequence[str]) -> str:
    lines = ["| reason | rows |", "|---|---:|"]
    return "\n".join(
        [*lines, *(f"| {reason} | {count} |" for reason, count in Counter(reasons).most_common())]
    )
