"""The real step of GRPO, and of the methods that differ from it by their advantages only."""

from __future__ import annotations

from planner.steps import scoring
from planner.steps.generation import rollout
from planner.steps.run import Run, end_of_step
from planner.steps.update import clipped_policy_loss, update_policy


def step(run: Run) -> None:
    """Responses, their log-probs and rewards, then the update against them."""
    collect(run)
    scoring.keep_group_advantages(run, run.kept.pop("rewards"))
    learn(run)


def collect(run: Run) -> None:
    """Responses, and what advantages are made of: log-probs and rewards."""
    rollout(run)
    scoring.old_log_probs(run)
    scoring.reference_log_probs(run)
    scoring.rewards(run)


def learn(run: Run) -> None:
    """The update against the advantages that are kept, and the end of the step."""
    update_policy(run, clipped_policy_loss)
    run.kept.clear()
    end_of_step(run)
