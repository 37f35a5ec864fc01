"""Everything that an estimate says of a plan, as plain numbers and words.

``python record.py`` reads links, a line each, and writes what each is told, a line of JSON each; by
whose files depends on where Python finds ``planner``. So this file imports nothing else of ours,
and another commit's plans are recorded by that commit's own.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from planner.estimate import estimate, phase_plans
from planner.footprint import Footprint, Phase
from planner.phases.phase import PhasePlan
from planner.phases.scene import scene_of
from planner.plan.facts import facts_of
from planner.plan.link import from_query_string
from planner.term import Term, TimeTerm
from planner.totals.levels import Adder

Record = dict[str, Any]
"""``words``, the step's ``seconds`` and the ``phases`` by name, role and rank; of a plan that is
refused, why."""


def record(link: str) -> Record:
    """What the plan of a link is told.

    Raises:
        ValueError: a term lacks its formula, inputs or source.
    """
    reading = from_query_string(link)
    plan = reading.plan
    if plan is None or reading.problems:
        return {"words": {"refused": [one.message for one in reading.problems]}}
    footprint, phases = estimate(plan), phase_plans(scene_of(plan, facts_of(plan)))
    adder = Adder(plan.expandable_segments)
    return {
        "words": _words(footprint),
        "seconds": {
            "step": footprint.step_seconds,
            "least": footprint.low_seconds,
            "most": footprint.high_seconds,
        },
        "phases": {
            " · ".join((one.name, one.role, one.rank)): {
                **_phase(one),
                "instants": [list(each) for each in _instants(all_of_it, adder)],
            }
            for one, all_of_it in zip(footprint.phases, phases, strict=True)
        },
    }


def _words(footprint: Footprint) -> dict[str, Any]:
    verdict = footprint.verdict
    return {
        "word": verdict.word,
        "sentence": verdict.sentence,
        "lines": verdict.lines,
        "assumptions": footprint.assumptions,
        "warnings": footprint.warnings,
        "blockers": footprint.blockers,
        "notes": footprint.notes,
    }


def _phase(phase: Phase) -> dict[str, Any]:
    explained: tuple[Term | TimeTerm, ...] = (*phase.terms, *phase.times)
    for one in explained:
        if not (one.formula and one.inputs and one.source):
            raise ValueError(f"{phase.name}: {one.name} has no formula, inputs or source")
    categories: Counter[str] = Counter()
    terms, least, most = Counter(categories), Counter(categories), Counter(categories)
    for term in phase.terms:
        key = " · ".join((term.role, term.category, "host" if term.host else "device"))
        categories[key] += int(term.bytes)
        key = f"{key} · {term.name}"
        terms[key] += int(term.bytes)
        least[key] += int(term.bytes if term.low is None else term.low)
        most[key] += int(term.bytes if term.high is None else term.high)
    return {
        "instant": phase.instant,
        "bytes": {
            "requested": phase.requested_bytes,
            "allocated": phase.allocated_bytes,
            "reserved": phase.reserved_bytes,
            "device": phase.device_bytes,
            "device at least": phase.low_bytes,
            "device at most": phase.high_bytes,
            "host": phase.host_bytes,
            "host at least": phase.host_low_bytes,
            "host at most": phase.host_high_bytes,
        },
        "categories": categories,
        "terms": terms,
        "terms at least": least,
        "terms at most": most,
        "seconds": phase.seconds,
        "causes": [[f"{one.role} · {one.name}", float(one.seconds)] for one in phase.times],
    }


def _instants(phase: PhasePlan, adder: Adder) -> Iterator[tuple[str, int]]:
    for instant in phase.instants:
        yield instant.name, int(adder.totals(instant).requested)


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(record(line.strip())), flush=True)
