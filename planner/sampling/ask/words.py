"""A run of density-aware sampling in words: what happens, and its stages in a table. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.sampling.ask.result import SamplingResult
from planner.sampling.stages import STAGES
from planner.units import read_bytes, read_seconds

OWN = {
    "calibrate search": "Calibration of the search",
    "calibrate embed": "Calibration of the embedding",
    "recall": "Sampling recall",
}
"""Stages that a run has and an estimate has not."""
HEADER = (
    "stage", "seconds", "predicted", "RAM before", "peak", "predicted", "after", "GPU before",
    "peak", "after",
)  # fmt: skip


def stage_name(name: object) -> str:
    """A stage as a person reads it."""
    return STAGES.get(str(name)) or OWN.get(str(name), str(name)[:60])


def _size(value: object) -> str:
    return read_bytes(value) if isinstance(value, int) else "–"


def said(event: Mapping[str, Any]) -> str:
    """A line of progress in words; empty for what only a program needs."""
    name, stage = event.get("name"), stage_name(event.get("stage"))
    if name == "queued":
        return f"Waiting in the queue: {event.get('ahead')} ahead on this device."
    if name == "preparing":
        return "Checking prompts and model."
    if name == "predicted":
        each = event.get("seconds")
        if isinstance(each, dict):
            parts = [f"{stage_name(key)} {read_seconds(value)}" for key, value in each.items()]
            times = f"; {', '.join(parts)}" if parts else ""
            worst = stage_name(event.get("worst"))
            return (
                f"Predicted peak: {_size(event.get('host_bytes'))} of host RAM, in {worst}{times}."
            )
    if name == "begins":
        return f"{stage}: host RAM {_size(event.get('host_bytes'))}{_gpu(event, 'gpu_bytes')}."
    if name == "at":
        return (
            f"{stage}: {event.get('done'):,} of {event.get('of'):,} prompts, host RAM "
            f"{_size(event.get('host_bytes'))}{_gpu(event, 'gpu_bytes')}."
        )
    if name == "ended":
        return (
            f"{stage} took {read_seconds(float(event.get('seconds') or 0))}: host RAM "
            f"{_size(event.get('host_before_bytes'))} before, "
            f"{_size(event.get('host_peak_bytes'))} at most, "
            f"{_size(event.get('host_after_bytes'))} after{_gpu(event, 'gpu_after_bytes')}."
        )
    return ""


def _gpu(event: Mapping[str, Any], key: str) -> str:
    return f", GPU {_size(event[key])}" if isinstance(event.get(key), int) else ""


def rows(result: SamplingResult) -> list[tuple[str, ...]]:
    """The stages, as measured beside predicted; a dash where nobody knows."""
    return [
        (
            stage_name(one.name),
            f"{one.seconds:.1f}",
            "–" if one.predicted_seconds is None else f"{one.predicted_seconds:.1f}",
            *(
                _size(value)
                for value in (
                    one.host_before_bytes,
                    one.host_peak_bytes,
                    one.predicted_peak_bytes,
                    one.host_after_bytes,
                    one.gpu_before_bytes,
                    one.gpu_peak_bytes,
                    one.gpu_after_bytes,
                )
            ),
        )
        for one in result.stages
    ]
