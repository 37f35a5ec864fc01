"""The phases of a step as values: what anyone has to know of one, told once, and by no name.

A method lists those that it can have (``Method.phases``); one of its own is a value in its folder.
Names are for people, and for logs of what was executed. Imports nothing of ours.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Engine = Literal["awake", "weights", "asleep"]
"""What a colocated engine holds meanwhile: all, its weights alone, or what sleep leaves."""
Published = Literal["rollout", "log-probs", "update", "weight sync"]
"""What runs publish seconds of."""


class Moment(NamedTuple):
    """A stretch of the step in which the same models are needed."""

    name: str
    updates: str = ""
    """The role that is trained in it."""
    engine: Engine = "asleep"
    loaded: bool = True
    """Whether all models are there, and what a step leaves behind: in all but their loading."""
    between: bool = False
    """Whether it lies between the policy's first forward of a step and its update."""


class StepPhase(NamedTuple):
    """One of the phases of a footprint."""

    name: str
    moment: Moment
    published: Published | None
    """What runs publish of it; None where it does not compute, so that nobody does."""
    waits_for_disk: bool = False
    """Whether a disk, which no plan names, decides its seconds."""
    stops_both: bool = False
    """Whether neither the trainer nor an engine on GPUs of its own does anything else."""


def scoring(name: str, *, between: bool = True) -> StepPhase:
    """A phase of forwards without gradient."""
    return StepPhase(name, Moment(name, between=between), "log-probs")


POLICY_UPDATE = Moment("policy update", updates="policy")
GENERATING = Moment("rollout", engine="awake")

LOAD = StepPhase("load", Moment("load", loaded=False), None)
ROLLOUT = StepPhase("rollout", GENERATING, "rollout")
OLD_LOG_PROBS = scoring("old log-probs", between=False)
REFERENCE_LOG_PROBS = scoring("reference log-probs")
VALUES = scoring("values")
REWARD = scoring("reward")
POLICY_FORWARD = StepPhase("policy forward", POLICY_UPDATE, "update")
POLICY_BACKWARD = StepPhase("policy backward", POLICY_UPDATE, "update")
OPTIMIZER_STEP = StepPhase("optimizer step", POLICY_UPDATE, "update")
CRITIC_UPDATE = StepPhase(
    "critic update", Moment("critic update", updates="critic", between=True), "update"
)
WEIGHT_SYNC = StepPhase(
    "weight sync", Moment("weight sync", engine="weights"), "weight sync", stops_both=True
)
CHECKPOINT = StepPhase("checkpoint", Moment("checkpoint"), None, waits_for_disk=True)
VALIDATION = StepPhase("validation", GENERATING, "rollout")

UPDATE = (POLICY_FORWARD, POLICY_BACKWARD, OPTIMIZER_STEP)


def given(*scored: StepPhase) -> tuple[StepPhase, ...]:
    """Of a method that learns from given responses, after it has ``scored`` them."""
    return (LOAD, *scored, *UPDATE, CHECKPOINT)


def sampled(*scored: StepPhase) -> tuple[StepPhase, ...]:
    """Of a method that learns from responses of its own, after it has ``scored`` them."""
    return (LOAD, ROLLOUT, *scored, *UPDATE, WEIGHT_SYNC, CHECKPOINT, VALIDATION)
