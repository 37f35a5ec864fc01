"""What a run of density-aware sampling found: its stages, its densities, its file of weights.

Strictly read, whoever wrote it. What nobody measured is None, never 0. Imports pydantic only.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.catalog.safe_json import read_object
from planner.jobs.strict import (
    Bytes,
    Count,
    JobResult,
    Line,
    Number,
    Seconds,
    Strict,
    Text,
    in_a_sentence,
)
from planner.sampling.ask.request import SamplingRequest

Status = Literal["completed", "stopped", "failed", "killed"]
LARGEST_BYTES = 4 * 2**20


class StageFigures(Strict):
    """One stage as it was measured, beside what was predicted after calibration."""

    name: Line
    seconds: Seconds
    predicted_seconds: Seconds | None = None
    predicted_peak_bytes: Bytes | None = None
    host_before_bytes: Bytes | None = None
    host_peak_bytes: Bytes | None = None
    host_after_bytes: Bytes | None = None
    gpu_before_bytes: Bytes | None = None
    gpu_peak_bytes: Bytes | None = None
    gpu_after_bytes: Bytes | None = None


class Example(Strict):
    """A prompt with its density: the mean distance to its neighbours."""

    place: Count
    """In the file, from 0."""
    text: Text
    distance: Number
    weight: Number


class Histogram(Strict):
    """How many prompts have which mean distance."""

    edges: Annotated[tuple[Number, ...], Field(max_length=201)]
    counts: Annotated[tuple[Count, ...], Field(max_length=200)]


class Provenance(Strict):
    """What weights were made of; when any of it differs they are stale."""

    model: Line
    identity: Line
    """``revision`` and a commit, or ``sha256`` of config and weights."""
    prompts_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    prompts: Count
    pooling: Literal["mean logits", "mean hidden states"]
    width: Count
    dtype: Literal["fp32", "fp16"]
    model_dtype: Literal["fp32", "bf16", "fp16"]
    prompt_tokens: Count
    neighbours: Count
    index: Line
    lists: Count
    probes: Count
    favour: Literal["rare", "common"]
    created: Line
    """UTC, ISO 8601."""


class SamplingResult(JobResult):
    """One run."""

    status: Status
    request: SamplingRequest
    provenance: Provenance | None = None
    stages: Annotated[tuple[StageFigures, ...], Field(max_length=60)] = ()
    predicted_peak_bytes: Bytes | None = None
    measured_peak_bytes: Bytes | None = None
    recall: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the exact nearest neighbours that an IVF index found; None until sampled."""
    histogram: Histogram | None = None
    rarest: Annotated[tuple[Example, ...], Field(max_length=50)] = ()
    commonest: Annotated[tuple[Example, ...], Field(max_length=50)] = ()
    versions: dict[Line, Line] = {}


def read_result(text: str | bytes) -> SamplingResult:
    """The result in a run's folder.

    Raises:
        ValueError: when it is damaged.
    """
    read_object(text, "result", "run's result", most_bytes=LARGEST_BYTES)
    with in_a_sentence("result"):
        return SamplingResult.model_validate_json(text)
