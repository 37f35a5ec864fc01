"""A footprint as JSON says it (docs: the one shape of every answer), read strictly.

The same keys as :func:`planner.answer.to_json`; a trial adds to each phase what only
measuring tells. What is not known is None, never 0. No torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from planner.answer import ANSWER_VERSION, to_json
from planner.footprint import Footprint
from planner.jobs.strict import (
    Bytes,
    Count,
    Line,
    Number,
    Seconds,
    Signed,
    SignedBytes,
    Strict,
    Text,
    Values,
)

Whole = Annotated[int, Field(ge=0)]
"""Of a whole run, however long a plan may make it."""
LEVELS = ("requested_bytes", "allocated_bytes", "reserved_bytes", "device_bytes")
"""Totals of a phase that the estimate, the dry run and a trial all have."""


class FormulaFigures(Strict):
    """Something with a name, and the formula that it comes from."""

    name: Line
    role: Line
    formula: Text = ""
    inputs: Values = {}
    source: Text = ""
    ignores: Text = ""


class TermFigures(FormulaFigures):
    """One named share of a phase's peak."""

    category: Line
    bytes: SignedBytes
    low_bytes: SignedBytes | None = None
    high_bytes: SignedBytes | None = None
    host: bool = False


class TimeFigures(FormulaFigures):
    """One cause of a phase's seconds."""

    seconds: Signed
    low_seconds: Signed | None = None
    high_seconds: Signed | None = None
    evidence: Text = ""


class PoolFigures(Strict):
    """What an engine takes by its share of a card, and the sequences that its cache holds."""

    share_bytes: Bytes
    sequences: Count


class ErrorFigures(Strict):
    """Relative error to expect, signed; None when nobody knows."""

    low: Signed | None = None
    high: Signed | None = None
    source: Annotated[Text, Field(alias="from")] = ""


class TotalFigures(Strict):
    """Totals of a phase or of all of them, and the intervals that they lie in."""

    source: Literal["estimate", "dry run", "trial"]
    requested_bytes: Bytes | None = None
    allocated_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    device_bytes: Bytes | None = None
    low_bytes: Bytes | None = None
    high_bytes: Bytes | None = None
    host_bytes: Bytes | None = None
    host_low_bytes: Bytes | None = None
    host_high_bytes: Bytes | None = None
    seconds: Seconds | None = None
    low_seconds: Seconds | None = None
    high_seconds: Seconds | None = None
    seconds_error: Text | None = None
    """What a predicted time's interval rests on."""


class PhaseFigures(TotalFigures):
    """One phase of one step.

    Bytes are the phase's peaks on one GPU. ``seconds`` are of the whole step as planned, all
    micro-batches; ``first_seconds`` the same of the first step. ``device_before_bytes`` and
    ``device_after_bytes`` are what the driver sees in use when the phase first begins and last
    ends. ``tokens`` are the token positions that the phase works on in a step.
    """

    name: Line
    instant: Line = ""
    rank: Line = "trainer"
    active_bytes: Bytes | None = None
    pool_bytes: Bytes | None = None
    device_before_bytes: Bytes | None = None
    device_after_bytes: Bytes | None = None
    occasions: Whole = 0
    """How often a run has the phase where its steps do not."""
    times: Annotated[tuple[TimeFigures, ...], Field(max_length=200)] = ()
    first_seconds: Seconds | None = None
    tokens: Number | None = None
    tokens_per_second: Number | None = None
    flops: Number | None = None
    flops_per_second: Number | None = None
    allocation_retries: Count | None = None
    error: ErrorFigures | None = None
    """Of ``device_bytes``, where measurements state one."""
    terms: Annotated[tuple[TermFigures, ...], Field(max_length=500)] = ()


def rates(seconds: float | None, **work: float | None) -> dict[str, Any]:
    """Fields of a phase's work in a step (``tokens``, ``flops``) and of the same per second."""
    done = {f"{unit}_per_second": each / seconds for unit, each in work.items() if each and seconds}
    return {**{f"{unit}_per_second": None for unit in work}, **work, **done}


class VerdictFigures(Strict):
    """The verdict's word, its headline, and the lines below it."""

    word: Literal["fits", "tight", "out of memory"]
    sentence: Text
    lines: Annotated[tuple[Text, ...], Field(max_length=30)] = ()
    incomplete: bool = False


class LimitFigures(Strict):
    """Something that a plan can meet, as the estimate says it."""

    name: Line
    word: Literal["fits", "tight", "out of memory"]
    bytes: Whole
    high_bytes: Whole
    budget_bytes: Whole
    phase: Line
    sentence: Text


class ReferenceFigures(Strict):
    """What a cached reference costs beside the step's memory, as the estimate says it."""

    each_step: bool
    responses: Whole
    seconds: Number | None = None
    weight_bytes: Whole
    disk_bytes: Whole
    step_bytes: Whole
    copy_seconds: Seconds | None = None
    read_seconds: Seconds | None = None


class FootprintFigures(TotalFigures):
    """The answer of any rung of evidence."""

    v: Literal[1, 2, 3, 4, 5, 6, 7, 8, 9] = ANSWER_VERSION
    plan: Values
    verdict: VerdictFigures | None = None
    limits: Annotated[tuple[LimitFigures, ...], Field(max_length=30)] = ()
    assumptions: Annotated[tuple[Text, ...], Field(max_length=100)] = ()
    budget_bytes: Bytes | None = None
    training_bytes: Bytes | None = None
    pool: PoolFigures | None = None
    seconds_from: Text | None = None
    """What a predicted time rests on."""
    reference_cache: ReferenceFigures | None = None
    worst_phase: Line | None = None
    worst_rank: Line | None = None
    error: ErrorFigures = ErrorFigures()
    phases: Annotated[tuple[PhaseFigures, ...], Field(max_length=64)] = ()
    warnings: Annotated[tuple[Text, ...], Field(max_length=100)] = ()

    def phase(self, name: str) -> PhaseFigures | None:
        """The phase of that name on the trainer's GPU, if there is one."""
        found = (one for one in self.phases if one.name == name and one.rank == "trainer")
        return next(found, None)


def figures_of(footprint: Footprint) -> FootprintFigures:
    """The figures of an estimate or a dry run."""
    return from_data(to_json(footprint))


def from_data(data: Mapping[str, Any]) -> FootprintFigures:
    """The figures in plain data as :func:`planner.answer.to_json` gives it.

    Raises:
        pydantic.ValidationError: where something is of another type or out of bounds.
    """
    return FootprintFigures.model_validate_json(json.dumps(data, allow_nan=False))
