"""The real step of Intuitor: GRPO whose reward is the policy's own certainty."""

from __future__ import annotations

import torch
from torch import nn

from planner.methods.intuitor.fields import WITH_HEAD, own
from planner.steps import forward, in_loss, models, scoring
from planner.steps.batch import Rows
from planner.steps.generation import rollout
from planner.steps.run import Run, end_of_step
from planner.steps.update import against_kept, clipped_policy_loss, update_policy
from planner.steps.vocabulary import self_certainty

KEPT = "self-certainty"


def step(run: Run) -> None:
    """Responses, log-probs with self-certainty, then the update against its group advantages."""
    premise = own(run.plan).self_certainty_gradient
    rollout(run)
    if own(run.plan).self_certainty == WITH_HEAD:
        scoring.old_log_probs(run, certainty=KEPT)
    else:
        scoring.old_log_probs(run, {KEPT: _certainty})
    scoring.reference_log_probs(run)
    scoring.keep_group_advantages(run, run.kept[KEPT].mean(1))
    update_policy(run, _certain_policy_loss if premise else clipped_policy_loss)
    run.kept.clear()
    end_of_step(run)


def _certainty(
    run: Run, model: nn.Module, hidden: torch.Tensor, with_gradient: bool = False
) -> torch.Tensor:
    return self_certainty(
        run.stage,
        hidden,
        models.head(model),
        how=own(run.plan).self_certainty,
        logits_dtype=run.logits_dtype,
        with_gradient=with_gradient,
        softcap=models.softcap(model),
        temperature=run.setup.temperature,
    )


def _certain_policy_loss(run: Run, rows: Rows, places: slice) -> torch.Tensor:
    """Document 000's premise: self-certainty weighs the loss, and gradients flow through it."""
    return run.policy(lambda model: _certain(run, model, rows, places))  # type: ignore[no-any-return]


def _certain(run: Run, model: nn.Module, rows: Rows, places: slice) -> torch.Tensor:
    hidden, targets, reference = in_loss.scored(run, model, rows, places)
    loss = against_kept(run, model, rows, places, hidden, targets, reference)
    sure = _certainty(run, model, hidden, with_gradient=True)
    weighed = forward.responses(sure, rows, run.plan) * run.kept["advantages"][places]
    return loss - weighed.mean()
