"""Where a plan's reference log-probs come from, and when they are there.

Forms of ``reference`` whose log-probs the loss itself makes have no pass of their own
(docs/decisions/0009-references-in-the-loss.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.plan.fields import PlanFields as Plan
from planner.plan.methods import method_of

IN_LOSS = ("cached-activations", "dual-output")
"""Made of each micro-batch in its training forward, instead of once a step before it."""


ON_POLICY = ("adapter-disabled", "frozen-adapter")
"""The policy's own model answers, without its adapters or with others that never train."""


def compares(plan: Plan) -> bool:
    """Whether the loss compares with a reference."""
    method = method_of(plan)
    return bool(getattr(plan, method.kl_field) != "none" or method.held_to_reference)


def on_policy(plan: Plan) -> bool:
    """Whether the policy's own model answers for the reference."""
    return compares(plan) and plan.reference in ON_POLICY


def frozen_adapter(plan: Plan) -> bool:
    """Whether the policy has a second adapter, the reference's, which never trains."""
    return compares(plan) and plan.reference == "frozen-adapter"


def in_loss(plan: Plan) -> bool:
    """Whether the loss makes the reference's log-probs."""
    return compares(plan) and plan.reference in IN_LOSS


def cached(plan: Plan) -> bool:
    """Whether the reference's last hidden states come with the batch."""
    return compares(plan) and plan.reference == "cached-activations"


def dual(plan: Plan) -> bool:
    """Whether one forward has the outputs of policy and reference."""
    return compares(plan) and plan.reference == "dual-output"


def stored(plan: Plan) -> bool:
    """Whether what the loss needs of the reference is computed apart, and kept."""
    return compares(plan) and plan.reference in ("cached-logprobs", "cached-activations")


def on_disk(plan: Plan) -> bool:
    """Whether it is computed once, before the run, and read from a disk in each step."""
    return stored(plan) and not elsewhere(plan)


def elsewhere(plan: Plan) -> bool:
    """Whether that happens in every step, on other GPUs: sampled responses are new each time."""
    return stored(plan) and method_of(plan).generates


def own_head(plan: Plan) -> bool:
    """Whether the reference's head is a copy of its own: adapters leave the policy's frozen."""
    return cached(plan) and plan.finetuning == "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCache:
    """What a cached reference costs beside the step's memory; what nobody knows is None."""

    each_step: bool
    """Responses are sampled anew, so that the pass is made in every step, inside its time;
    otherwise it is made once before the run."""
    responses: int
    """That one such pass scores; before a run at most, since a data set may repeat."""
    seconds: float | None
    """Of one such pass, on as many of the same card as train."""
    weight_bytes: int
    """Of the reference, all shards together, on the GPUs that make the pass."""
    disk_bytes: int
    """Written before the run; 0 where nothing waits on a disk."""
    step_bytes: int
    """That one step is given, all GPUs together."""
    copy_seconds: float | None
    """From host RAM to the GPU, in each step."""
    read_seconds: float | None
    """From the disk, in each step and inside its time: at the plan's rate, or at an assumed one.
    None where nothing waits on a disk."""
