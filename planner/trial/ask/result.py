"""What a trial ends with, and its JSON: the same whether it ran here, under torchrun or elsewhere.

``plan`` is what was asked; ``ran`` says what really ran (one plan, or two of fewer layers), each
with its own measurement and the dry run of that same plan. ``predicted``, ``estimated`` and
``measured`` are all of ``plan`` on the trial's device, so their quotients mean something; where
``extrapolated`` is true, ``measured`` was led from the plans in ``ran`` to the full depth.
A file from elsewhere is hostile until :func:`read_result` has read it. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from planner.catalog.safe_json import read_object
from planner.jobs.strict import (
    Bytes,
    Count,
    JobResult,
    Line,
    Link,
    Strict,
    Text,
    in_a_sentence,
)
from planner.plan import Plan
from planner.plan.link import from_query_string
from planner.plan.migrations import FIRST_VERSION
from planner.plan.query import fields_of
from planner.trial.ask.footprints import FootprintFigures
from planner.trial.cluster.address import host_of

Status = Literal[
    "completed",
    "out of memory",
    "will not fit",
    "stopped",
    "killed",
    "timed out",
    "host memory",
    "failed",
]
STATUSES: tuple[Status, ...] = get_args(Status)
"""How a trial can end. ``will not fit``: nothing was run, since not even few layers fit."""

MAX_BYTES = 8 * 2**20
"""A result with every term of every phase is far below 1 MiB."""
TIME = "%Y-%m-%dT%H:%M:%SZ"


def complete_link(text: str) -> str:
    """The text, if it is a link without problems to a whole plan; ``ValueError`` otherwise."""
    _plan_of(text)
    return text


def _plan_of(text: str) -> Plan:
    reading = from_query_string(text)
    if reading.plan is None or reading.problems:
        said = reading.problems[0].sentence if reading.problems else "it holds no plan"
        raise ValueError(f"is no link to a plan: {said}")
    for name in ("calibration", "benchmark"):
        if getattr(reading, name) is not None:
            raise ValueError(f"holds a {name}, which is no part of a plan")
    return reading.plan


def whole(text: str) -> str:
    """The text, if the link has every field of its version; ``ValueError`` otherwise."""
    keys = {part.partition("=")[0]: part.partition("=")[2] for part in text.split("&")}
    version = int(keys.get("v", FIRST_VERSION))
    missing = [field for field in fields_of(version) if field not in keys]
    if missing:
        raise ValueError(f"is not complete: {missing[0]} is missing")
    return text


def _instant(text: str) -> str:
    try:
        datetime.strptime(text, TIME)
    except ValueError:
        raise ValueError("is no time like 2026-01-31T12:00:00Z") from None
    return text


PlanLink = Annotated[Link, AfterValidator(complete_link)]
WholePlanLink = Annotated[PlanLink, AfterValidator(whole)]
Versions = Annotated[dict[Annotated[str, Field(max_length=60)], Line], Field(max_length=40)]


class Device(Strict):
    """Where it ran. ``cap_bytes`` is a lower limit that was asked for."""

    kind: Literal["cpu", "cuda"]
    name: Line
    total_bytes: Bytes | None = None
    cap_bytes: Bytes | None = None
    gpu: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9\-]*$")] = ""
    """The catalog's key of the card; empty for a CPU, and a card that the catalog lacks."""
    processes: Annotated[int, Field(ge=1, le=4096)] = 1
    """Processes that trained together (torchrun); figures are of the rank with the most."""


class Environment(Strict):
    """What the figures depend on besides plan and device."""

    versions: Versions
    driver: Line | None = None
    platform: Line = ""
    settings: Versions = {}
    """Environment variables that change an allocator or a kernel."""
    cluster: Line = ""
    """Address of the Ray cluster whose node ran it; empty where no cluster did."""


class Ran(Strict):
    """A plan that really ran, with the dry run of that same plan beside it."""

    plan: WholePlanLink
    layers: Count
    predicted: FootprintFigures | None = None
    measured: FootprintFigures | None = None


class PredictedPeak(Strict):
    """What the dry run said of the phase that ran out of memory."""

    bytes: Bytes
    out_of_memory: bool


class OutOfMemory(Strict):
    """Where memory ended. Bytes that nobody reported are None."""

    phase: Line
    asked_bytes: Bytes | None = None
    live_bytes: Bytes | None = None
    capacity_bytes: Bytes | None = None
    would_fit: PlanLink | None = None
    would_fit_words: Text = ""
    """The change in words: what ``would_fit`` has otherwise."""
    predicted: PredictedPeak | None = None


class TrialResult(JobResult):
    """One trial, finished in whatever way."""

    source: Literal["trial"] = "trial"
    status: Status
    created: Annotated[str, AfterValidator(_instant)]
    plan: WholePlanLink
    ran: Annotated[tuple[Ran, ...], Field(max_length=4)] = ()
    extrapolated: bool = False
    device: Device
    environment: Environment | None = None
    steps: Count = 0
    """Measured iterations after the warm-up."""
    warm_up: Count = 0
    lengths: Literal["full", "random"] = "full"
    weights: Literal["random", "local"] = "random"
    censored: bool = False
    """The allocator had to retry: peaks are capped by the card and prove nothing above it."""
    predicted: FootprintFigures | None = None
    estimated: FootprintFigures | None = None
    measured: FootprintFigures | None = None
    out_of_memory: OutOfMemory | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if self.status == "completed" and self.measured is None:
            raise ValueError("measured is missing though the trial completed")
        if self.status in ("out of memory", "will not fit") and self.out_of_memory is None:
            raise ValueError(f"out_of_memory is missing though the status is {self.status}")
        if self.extrapolated and len(self.ran) < 2:
            raise ValueError("ran has fewer than two plans though measured is extrapolated")
        return self

    @property
    def where(self) -> str:
        """The device's name, and the cluster's where one ran it."""
        name, cluster = self.device.name, self.environment.cluster if self.environment else ""
        return f"{name} of the Ray cluster {host_of(cluster)}" if cluster else name

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions by library; empty where it ended before they were known."""
        return self.environment.versions if self.environment else {}

    def planned(self) -> Plan:
        """The plan that was asked."""
        return _plan_of(self.plan)


def result_json(result: TrialResult) -> str:
    """The result as one line of JSON."""
    return result.model_dump_json(by_alias=True)


def read_result(text: str | bytes) -> TrialResult:
    """The result in JSON that anybody may have written.

    Raises:
        ValueError: one sentence that names the field.
    """
    read_object(text, "trial", "trial's result", most_bytes=MAX_BYTES)
    with in_a_sentence("trial"):
        return TrialResult.model_validate_json(text)


def now() -> str:
    """The time as results say it."""
    return datetime.now(UTC).strftime(TIME)
