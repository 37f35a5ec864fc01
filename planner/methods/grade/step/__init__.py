"""The real step of GRADE: soft generation, its reward and its KL term are one forward."""

from __future__ import annotations

from typing import Any

import torch

from planner.methods.grade.fields import own
from planner.methods.grade.step.loss import grade_loss
from planner.steps.batch import Rows
from planner.steps.run import Run, end_of_step, weights_on_device
from planner.steps.update import update_policy


def step(run: Run) -> None:
    """Forward and backward of every micro-batch, then the optimizer."""
    update_policy(run, _loss)
    end_of_step(run)


def _loss(run: Run, rows: Rows, places: slice) -> torch.Tensor:
    prompt, frozen = run.plan.prompt_tokens, run.models
    reference: Any = frozen.get("reference")
    judge: Any = frozen["reward model"]

    def on(model: torch.nn.Module) -> torch.Tensor:
        return grade_loss(
            run.stage,
            model,
            None if reference is None else reference.model,
            judge.model,
            rows.ids[:, :prompt],
            None if rows.mask is None else rows.mask[:, :prompt],
            run.plan.response_tokens,
            own(run.plan),
            autocast=run.setup.autocasts_adapters,
        )

    with weights_on_device(run, "reference"):
        return run.policy(on)  # type: ignore[no-any-return]
