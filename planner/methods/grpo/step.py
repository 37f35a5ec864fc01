"""The real step of GRPO, and of the methods that differ from it by their advantages only."""

from __future__ import annotations

from planner.steps import scoring
from planner.steps.generation import rollout
from planner.steps.run import Run, end_of_step
from planner.steps.update import clipped_policy_loss, update_policy


def step(run: Run) -> None:
    """Responses, their log-probs and rewards, then the update against them."""
    rollout(run)
    scoring.old_log_probs(run)
    scoring.reference_log_probs(run)
    scoring.rewards(run)
    scoring.keep_group_advantages(run, run.kept.pop("rewards"))
    update_policy(run, clipped_policy_loss)
    run.kept.clear()
    end_of_step(run)
