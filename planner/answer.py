"""The one JSON shape of every answer: an estimate's, a dry run's, a trial's."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from planner.footprint import Footprint, Phase, StatedError, training_of

ANSWER_VERSION: Literal[9] = 9
"""Version of an answer in JSON: that of links, since an answer's plan is read as a link's."""


def to_json(footprint: Footprint) -> dict[str, Any]:
    """The one JSON shape of every answer; what is not known is None.

    At the top, requested, allocated and reserved bytes are the worst phase's own; device bytes are
    the most of any phase.
    """
    worst = footprint.worst
    return {
        "v": ANSWER_VERSION,
        "source": footprint.source,
        "plan": footprint.plan.model_dump(),
        "verdict": {
            "word": footprint.verdict.word,
            "sentence": footprint.verdict.sentence,
            "lines": list(footprint.verdict.lines),
            "incomplete": footprint.verdict.incomplete,
        },
        "limits": [asdict(limit) for limit in footprint.verdict.limits],
        "assumptions": list(footprint.assumptions),
        "budget_bytes": footprint.budget_bytes,
        "requested_bytes": worst.requested_bytes,
        "allocated_bytes": worst.allocated_bytes,
        "reserved_bytes": worst.reserved_bytes,
        "device_bytes": footprint.device_bytes,
        "training_bytes": training_of(footprint.phases).training_bytes,
        "pool": footprint.pool and asdict(footprint.pool),
        "low_bytes": footprint.low_bytes,
        "high_bytes": footprint.high_bytes,
        "host_bytes": footprint.host_bytes,
        "host_low_bytes": footprint.host_low_bytes,
        "host_high_bytes": footprint.host_high_bytes,
        "seconds": footprint.step_seconds,
        "low_seconds": footprint.low_seconds,
        "high_seconds": footprint.high_seconds,
        "seconds_error": footprint.doubt.words if footprint.doubt else None,
        "seconds_from": footprint.seconds_source or None,
        "reference_cache": footprint.reference_cache and asdict(footprint.reference_cache),
        "worst_phase": worst.name,
        "worst_rank": worst.rank,
        "error": _error_json(footprint.error),
        "phases": [_phase_json(phase) for phase in footprint.phases],
        "warnings": [*footprint.blockers, *footprint.warnings],
    }


def _error_json(error: StatedError) -> dict[str, Any]:
    return {"low": error.low, "high": error.high, "from": error.source}


def _phase_json(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "instant": phase.instant,
        "rank": phase.rank,
        "source": phase.source,
        "requested_bytes": phase.requested_bytes,
        "allocated_bytes": phase.allocated_bytes,
        "reserved_bytes": phase.reserved_bytes,
        "device_bytes": phase.device_bytes,
        "pool_bytes": phase.pool_bytes,
        "low_bytes": phase.low_bytes,
        "high_bytes": phase.high_bytes,
        "host_bytes": phase.host_bytes,
        "host_low_bytes": phase.host_low_bytes,
        "host_high_bytes": phase.host_high_bytes,
        "occasions": phase.occasions,
        "seconds": phase.seconds,
        "low_seconds": phase.low_seconds,
        "high_seconds": phase.high_seconds,
        "seconds_error": phase.doubt.words if phase.doubt else None,
        "times": [
            {
                "name": term.name,
                "role": term.role,
                "seconds": float(term.seconds),
                "low_seconds": None if term.low is None else float(term.low),
                "high_seconds": None if term.high is None else float(term.high),
                "formula": term.formula,
                "inputs": {name: float(value) for name, value in term.inputs.items()},
                "source": term.source,
                "ignores": term.ignores,
                "evidence": term.evidence,
            }
            for term in phase.times
        ],
        "error": None if phase.error is None else _error_json(phase.error),
        "terms": [
            {
                "name": term.name,
                "role": term.role,
                "category": term.category,
                "bytes": int(term.bytes),
                "low_bytes": None if term.low is None else int(term.low),
                "high_bytes": None if term.high is None else int(term.high),
                "formula": term.formula,
                "inputs": dict(term.inputs),
                "source": term.source,
                "ignores": term.ignores,
                "host": term.host,
            }
            for term in phase.terms
        ],
    }
