"""The real step of DPO: chosen and rejected responses in one forward, against a reference."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from planner.plan import references
from planner.steps import forward, in_loss, models, scoring
from planner.steps.batch import Rows
from planner.steps.run import Run, between_phases, end_of_step, weights_on_device
from planner.steps.sharding import reshard
from planner.steps.update import update_policy
from planner.steps.vocabulary import preference_loss, token_log_probs
from planner.values.step_phases import REFERENCE_LOG_PROBS

KEPT = REFERENCE_LOG_PROBS.name


def step(run: Run) -> None:
    """Score every pair of the step under the reference, then update against it."""
    _reference(run)
    update_policy(run, _loss)
    run.kept.clear()
    end_of_step(run)


def _reference(run: Run) -> None:
    """Keep the reference's log-probability of every response: one number a sequence."""
    plan, stage = run.plan, run.stage
    if references.in_loss(plan):
        if references.cached(plan):
            in_loss.keep_hidden(run)
        return
    count = int(run.q.sequences_per_gpu_step)
    with stage.region(role="policy", category="logits"):
        run.kept[KEPT] = torch.zeros(count, dtype=torch.float32, device=stage.device)
    if plan.reference == "cached-logprobs":
        return
    form = plan.reference if references.on_policy(plan) else ""
    role = "policy" if form else "reference"
    with stage.phase(KEPT), weights_on_device(run, role):
        for rows, places in scoring.micro_batches(run):
            with torch.no_grad(), run.autocast(role), stage.region(role=role):
                run.kept[KEPT][places] = run.models[role](
                    lambda model, rows=rows: _of_reference(run, model, rows, form)
                )
        reshard(run.models[role])
    between_phases(run)


def _of_reference(run: Run, model: Any, rows: Rows, form: str) -> torch.Tensor:
    if not form:
        return _log_probs(run, model, rows)
    with models.as_reference(model, form):
        return _log_probs(run, model, rows)


def _loss(run: Run, rows: Rows, places: slice) -> torch.Tensor:
    def on(model: nn.Module) -> torch.Tensor:
        hidden, targets, made = in_loss.scored(run, model, rows, places)
        reference = run.kept[KEPT][places] if made is None else made.sum(-1)
        policy = _of_responses(run, model, rows, hidden, targets)
        return preference_loss(_chosen_first(policy), _chosen_first(reference))

    return run.policy(on)  # type: ignore[no-any-return]


def _chosen_first(pairs: torch.Tensor) -> torch.Tensor:
    """Of rows whose neighbours are a pair, whatever the micro-batch: chosen ones, then rejected."""
    return pairs.view(-1, 2).t().flatten()


def _log_probs(run: Run, model: nn.Module, rows: Rows) -> torch.Tensor:
    """Log-probability [sequences] of each whole response."""
    return _of_responses(run, model, rows, *forward.scored(model, rows, run.plan))


def _of_responses(
    run: Run, model: nn.Module, rows: Rows, hidden: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    plan = run.plan
    taken = token_log_probs(
        run.stage,
        hidden,
        models.head(model),
        targets,
        how=plan.logits,
        logits_dtype=run.logits_dtype,
        softcap=models.softcap(model),
        chunk_tokens=plan.chunk_tokens,
    ).log_probs
    return forward.responses(taken, rows, plan).sum(-1)
