"""What a log measured, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

Quantity = Literal[
    "requested_bytes", "allocated_bytes", "reserved_bytes", "device_bytes", "host_bytes", "seconds"
]
"""A figure of a plan's phase that a log can have too."""


class Figure(NamedTuple):
    """One measured number, and what of a plan it stands beside."""

    words: str
    """As the log calls it."""
    quantity: Quantity
    value: float
    """Bytes of one GPU (a node, of host RAM) at most, or seconds of one step in the middle."""
    phases: tuple[str, ...] = ()
    """Those of a plan that it covers together; empty: all of a step."""
    term: str = ""
    """The term of a plan that it is, where it is no phase's total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedLengths:
    """Tokens of responses and prompts, means over the steps; None where the log has none."""

    mean: float
    shortest: float | None = None
    """Of a step, on average."""
    longest: float | None = None
    cut: float | None = None
    """Share that the cap cut."""
    prompt_mean: float | None = None
    prompt_longest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one form of log says of a run."""

    form: str
    steps: int
    """That it is over; 0 where it says nothing of steps."""
    figures: tuple[Figure, ...] = ()
    lengths: LoggedLengths | None = None
    step_tokens: float | None = None
    """Prompt and response tokens of a step, all GPUs together."""
    notes: tuple[str, ...] = ()
    """What to know before a figure is compared."""
    counts_engine: bool = False
    """Whether the allocator's figures count a colocated engine's pages."""
    censored: bool = False
    """Whether the allocator had to give its cache back, so that the card caps its peaks."""
    record: str = ""
    """The whole trial as JSON, where it is one of this planner's own."""


Steps = Sequence[Mapping[str, float]]
"""A row a step, by the names that the log has."""


def middle(steps: Steps, name: str) -> float | None:
    """The median over the steps but the first, which compiles and warms up; None without any."""
    values = [step[name] for step in steps if name in step]
    return median(values[1:] or values) if values else None


def mean(steps: Steps, name: str) -> float | None:
    """The mean over all steps."""
    values = [step[name] for step in steps if name in step]
    return sum(values) / len(values) if values else None


def most(steps: Steps, ending: str) -> float | None:
    """The most over the steps of every name that ends so."""
    return max((v for step in steps for k, v in step.items() if k.endswith(ending)), default=None)
