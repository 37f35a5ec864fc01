"""Seconds of one step from those of its phases: one after the other, or two sides at once.

An engine on GPUs of its own may generate while the trainer trains. One step off policy both work
on neighbouring batches and meet at every step; asynchronously the engine never waits for a batch to
end either, nor for its last rewards: only rewards that are made slower than responses hold it up.
Weights are sent while neither does anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from planner.footprint import Phase
from planner.formulas.decoding import LONGEST, REWARDS_LEFT
from planner.numeric import Num, maximum
from planner.plan import Plan
from planner.term import TimeTerm
from planner.values.step_phases import StepPhase

OVERLAPPED = ("one-step-off", "asynchronous")


class Spent(NamedTuple):
    """A phase of every step, and whose GPUs it is on."""

    kind: StepPhase
    rank: str
    seconds: Num | None
    waiting: Num = 0.0
    """Of these, what it takes longer because the longest responses decode nearly alone, and because
    the last rewards are waited for."""


def seconds_of(times: Sequence[TimeTerm] | None) -> tuple[Num | None, Num]:
    """Seconds of a phase's terms, and those it waits; None where they are unknown."""
    if times is None:
        return None, 0.0
    return sum(term.seconds for term in times), sum(map(_waiting, times))


def _waiting(term: TimeTerm) -> Num:
    if term.name == LONGEST.name:
        return term.seconds
    if term.name == REWARDS_LEFT.name:
        of = term.inputs
        return term.seconds - of["rounds"] * maximum(of["queue_seconds"], 0.0)
    return 0.0


def sides(overlap: str, phases: Iterable[Spent]) -> tuple[Num, Num, Num] | None:
    """Seconds of the engine's own GPUs, of the trainer's, and of both together."""
    own: Num = 0.0
    trains: Num = 0.0
    both: Num = 0.0
    for phase in phases:
        if phase.seconds is None:
            return None
        if phase.kind.stops_both:
            both = both + phase.seconds
        elif phase.rank == "rollout":
            empty = phase.waiting if overlap == "asynchronous" else 0.0
            own = own + phase.seconds - empty
        else:
            trains = trains + phase.seconds
    return own, trains, both


def step_seconds(overlap: str, phases: Iterable[Spent]) -> Num | None:
    """Seconds of one step of these phases; None where one is unknown."""
    found = sides(overlap, phases)
    if found is None:
        return None
    own, trains, both = found
    return both + (maximum(own, trains) if overlap in OVERLAPPED else own + trains)


def of_phases(overlap: str, phases: Iterable[Phase]) -> float | None:
    """The same of a footprint's phases, those of every step."""
    seconds = step_seconds(overlap, _spent(phases))
    return None if seconds is None else float(seconds)


def _spent(phases: Iterable[Phase]) -> list[Spent]:
    return [
        Spent(phase.kind, phase.rank, phase.seconds, sum(map(_waiting, phase.times)))
        for phase in phases
        if phase.per_step
    ]


def balance(plan: Plan, phases: Iterable[Phase]) -> str:
    """Which side of a separate engine waits, and the split at which none would; else empty."""
    if plan.rollout != "vllm-separate":
        return ""
    found = sides(plan.rollout_overlap, _spent(phases))
    if found is None or not found[0] or not found[1]:
        return ""
    own, trains, _ = found
    training = plan.gpus - plan.rollout_gpus
    even = plan.gpus * own * plan.rollout_gpus / (own * plan.rollout_gpus + trains * training)
    took = (
        f"With {plan.rollout_gpus} rollout GPUs to {training} that train "
        f"({plan.rollout_gpus / training:.2g} to 1) the engine takes {own:.3g} s of a step and the "
        f"trainer {trains:.3g} s"
    )
    if plan.rollout_overlap not in OVERLAPPED:
        return f"{took}, one after the other: each side's GPUs wait while the other works."
    waits = "trainer" if own > trains else "engine"
    return (
        f"{took}, at the same time: the {waits} waits {abs(own - trains):.3g} s. About {even:.2g} "
        f"rollout GPUs of {plan.gpus} would leave neither the trainer nor the engine waiting."
    )
