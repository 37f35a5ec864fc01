"""The real step of Intuitor: GRPO whose reward is the policy's own certainty."""

from __future__ import annotations

from planner.steps import scoring
from planner.steps.generation import rollout
from planner.steps.run import Run, end_of_step
from planner.steps.update import certain_policy_loss, clipped_policy_loss, update_policy


def step(run: Run) -> None:
    """Responses, log-probs with self-certainty, then the update against its group advantages."""
    premise = run.plan.self_certainty_gradient
    rollout(run)
    scoring.old_log_probs(run, certainty=True)
    scoring.reference_log_probs(run)
    scoring.keep_group_advantages(run, run.kept["self-certainty"].mean(1))
    update_policy(run, certain_policy_loss if premise else clipped_policy_loss)
    run.kept.clear()
    end_of_step(run)
