"""One plan after the other on a card that is too small, and what is said of the sentence.

Only the sentence goes from the simulation to the reader, in one variant with a line of traceback.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import NamedTuple

from accuracy.messages.played import Failed, largest_too_small, play, turns
from accuracy.messages.sentence import sentence
from planner.estimate import estimate
from planner.importer.diagnosis import diagnose
from planner.importer.memory_errors import read_messages
from planner.plan import Plan

SHORTEST = 0.6
"""Of the memory that just fits, the smallest card of the variant of any shortage."""
TRACES = {
    "load": ("transformers/modeling_utils.py", "from_pretrained"),
    "rollout": ("trl/trainer/grpo_trainer.py", "generate"),
    "validation": ("verl/trainer/ppo/ray_trainer.py", "_validate"),
    "old log-probs": ("verl/workers/engine_workers.py", "compute_log_prob"),
    "reference log-probs": ("verl/workers/engine_workers.py", "compute_ref_log_prob"),
    "values": ("verl/workers/engine_workers.py", "compute_values"),
    "reward": ("trl/trainer/grpo_trainer.py", "_calculate_rewards"),
    "policy forward": ("trl/trainer/grpo_trainer.py", "compute_loss"),
    "policy backward": ("torch/autograd/graph.py", "_engine_run_backward"),
    "optimizer step": ("torch/optim/adamw.py", "step"),
    "critic update": ("verl/workers/engine_workers.py", "update_critic"),
    "weight sync": ("verl/workers/engine_workers.py", "update_weights"),
    "checkpoint": ("transformers/trainer.py", "_save_checkpoint"),
}
"""A call that stands in tracebacks of each phase."""


class Said(NamedTuple):
    """What failed, and what was said first of it."""

    phase: str
    term: str
    said_phase: str
    said_term: str
    sure: str


def judged(
    plan: Plan, variants: Collection[str], dice: random.Random
) -> dict[str, Said] | None:
    """What is said of one plan's failure in each variant; None where its trainer's never fails.

    Raises:
        ValueError: for a plan with too many tensors to play.
    """
    expandable = plan.expandable_segments
    played = turns(plan)
    failed = largest_too_small(played, expandable)
    if failed is None or not _alone(failed):
        return None
    found = {}
    for variant in variants:
        other: Failed | None = failed
        if variant == "any shortage":
            smaller = int(failed.capacity_bytes * dice.uniform(SHORTEST, 1))
            other = play(played, smaller, expandable)
        elif variant == "other order":
            other = largest_too_small(turns(plan, dice), expandable)
        if other is not None and _alone(other):
            found[variant] = _said(plan, other, traceback=variant == "with a traceback")
    return found


def _alone(failed: Failed) -> bool:
    """Whether the trainer fails, and not an engine that wakes and takes what the trainer holds."""
    return failed.reserved_bytes + failed.outside_bytes <= failed.capacity_bytes


def _said(plan: Plan, failed: Failed, *, traceback: bool) -> Said:
    text = sentence(failed)
    if traceback:
        file, function = TRACES[failed.phase]
        call = f'  File "/env/site-packages/{file}", line 1, in {function}\n    ...\n'
        text = f"Traceback (most recent call last):\n{call}{text}"
    [message] = read_messages(text)
    found = diagnose(message, estimate(plan))
    place = found.places[0]
    named = place.term.name if place.term is not None and place.tensor_bytes is not None else ""
    return Said(failed.phase, failed.term, place.phase, named, found.sure)
