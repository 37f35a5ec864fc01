"""The real step of supervised fine-tuning."""

from __future__ import annotations

import torch
from torch import nn

from planner.steps import forward, models
from planner.steps.batch import Rows
from planner.steps.run import Run, end_of_step
from planner.steps.update import update_policy
from planner.steps.vocabulary import sft_loss


def step(run: Run) -> None:
    """Forward and backward of every micro-batch, then the optimizer."""
    update_policy(run, _loss)
    end_of_step(run)


def _loss(run: Run, rows: Rows, places: slice) -> torch.Tensor:
    return run.policy(lambda model: _on(run, model, rows))  # type: ignore[no-any-return]


def _on(run: Run, model: nn.Module, rows: Rows) -> torch.Tensor:
    plan = run.plan
    if plan.logits in ("full", "response"):
        # transformers' own loss, computed inside its forward.
        return model(**rows.inputs(), labels=rows.ids, use_cache=False).loss  # type: ignore[no-any-return]
    hidden, _ = forward.scored(model, rows, plan)
    return sft_loss(
        run.stage,
        hidden,
        models.head(model),
        rows.ids,
        how=plan.logits,
        logits_dtype=run.logits_dtype,
        softcap=models.softcap(model),
        chunk_tokens=run.plan.chunk_tokens,
    )
