"""The one JSON shape of a sampling estimate; what is not known is null, never 0."""

from __future__ import annotations

from typing import Any

from planner.sampling.estimate import SamplingEstimate, Stage
from planner.term import Term

VERSION = 1


def to_json(found: SamplingEstimate) -> dict[str, Any]:
    """Every number with its formula, inputs and source."""
    disk = found.disk
    return {
        "v": VERSION,
        "source": "estimate",
        "plan": found.plan.model_dump(),
        "dimensions": found.dimensions,
        "verdict": {"word": found.word, "sentence": found.sentence},
        "recommended": {"mode": found.advice.mode, "reason": found.advice.reason},
        "host_bytes": found.host_bytes,
        "worst_stage": found.worst.name,
        "gpu_bytes": found.gpu_bytes,
        "disk_bytes": found.disk_bytes,
        "disk": {
            "fp32_bytes": int(disk.raw.bytes),
            "fp16_bytes": int(disk.half.bytes),
            "compressed_bytes": int(disk.compressed.bytes),
            "result_bytes": int(disk.result.bytes),
            "terms": [_term(term) for term in disk],
        },
        "seconds": found.seconds,
        "online_prompts": found.online_prompts,
        "recall": None,
        "stages": [_stage(stage) for stage in found.stages],
        "warnings": list(found.warnings),
    }


def _stage(stage: Stage) -> dict[str, Any]:
    duration = stage.duration
    return {
        "name": stage.name,
        "host_bytes": stage.host_bytes,
        "gpu_bytes": stage.gpu_bytes,
        "seconds": stage.seconds,
        "seconds_from": None
        if duration is None
        else {
            "formula": duration.formula,
            "inputs": dict(duration.inputs),
            "source": duration.source,
            "assumed": duration.assumed,
        },
        "terms": [_term(term) for term in stage.terms],
    }


def _term(term: Term) -> dict[str, Any]:
    return {
        "name": term.name,
        "role": term.role,
        "bytes": int(term.bytes),
        "formula": term.formula,
        "inputs": dict(term.inputs),
        "source": term.source,
        "ignores": term.ignores,
        "host": term.host,
    }
