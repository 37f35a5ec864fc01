"""What a request will run and the most it may take, in words, before anything runs. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from planner.estimate import estimate
from planner.jobs.host_memory import GUARDED, guarded_bytes
from planner.plan.methods import method_of
from planner.trial.ask.endings import CannotRun
from planner.trial.ask.kernels import with_kernels_here
from planner.trial.ask.request import TrialRequest
from planner.trial.ask.variants import executed, layers_of
from planner.units import read_bytes, read_seconds
from planner.values.sharding import sharding_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a request will run, and the most it may take."""

    runs: str
    notes: tuple[str, ...]
    refused: str
    """Why no trial runs this plan; empty where one does."""
    most_bytes: int
    """Of the device: what the estimate says of the whole plan, or the cap if that is less."""
    most_seconds: float
    most_words: str


def describe(request: TrialRequest) -> Description:
    """The request in words, before anything runs."""
    plan = request.planned()
    refused = ""
    notes: tuple[str, ...] = ()
    try:
        here, notes = with_kernels_here(plan, request.kind)
        running, more = executed(here)
        notes += more
    except CannotRun as error:
        running, refused = plan, str(error)
    cut = "" if request.truncate == "never" else ", fewer where they do not fit"
    if request.depths:
        cut = f", of which {' and '.join(map(str, request.depths))} are run"
    rank = ""
    if plan.gpus > 1 and sharding_of(plan).fsdp > 0:
        rank = f", as rank 0 of {plan.gpus - plan.rollout_gpus}"
        if request.processes > 1:
            rank = f", as {request.processes} processes"
    device = "this machine's CPU" if request.where == "cpu" else request.where
    weights = "random weights" if not request.model_folder else "the local folder's weights"
    runs = (
        f"{method_of(running).label} on {device}{rank}: {request.warm_up + request.steps} steps, "
        f"{request.steps} of them measured, all {layers_of(plan)} layers{cut}, with {weights} and "
        f"batches of {request.lengths} length."
    )
    most, words = _most(request)
    return Description(
        runs=runs,
        notes=notes,
        refused=refused,
        most_bytes=most,
        most_seconds=request.limit_seconds,
        most_words=f"{words[0].upper()}{words[1:]}, {read_seconds(request.limit_seconds)}.",
    )


def _most(request: TrialRequest) -> tuple[int, str]:
    """What the trial may take of the device: bytes, and words.

    A processor holds the tensors alone, so a card's context and caching do not count there; what
    all its processes may hold together is guarded as well.
    """
    machine = "the node" if request.ray else "this machine"
    whose = request.where if request.kind == "cuda" else f"{machine}'s memory for tensors"
    found, by = estimate(request.planned()), "(estimate)"
    of_tensors = max(phase.requested_bytes for phase in found.phases)
    needed = found.device_bytes if request.kind == "cuda" else of_tensors * request.processes
    if request.cap_bytes is not None and request.cap_bytes < needed:
        needed, by = request.cap_bytes, "(memory cap)"
    guarded = request.host_limit_bytes
    if not request.ray:  # what is free on a node, its own guard asks there
        guarded = guarded_bytes(guarded)
    if request.kind == "cpu" and guarded is not None and guarded < needed:
        if request.host_limit_bytes is not None:
            return guarded, f"{read_bytes(guarded)} of {machine}'s RAM"
        # What is free changes from one look to the next; the share of it does not.
        return guarded, f"{GUARDED:.0%} of this machine's free RAM"
    return needed, f"{read_bytes(needed)} of {whose} {by}"
