"""The real step of GRADE: soft generation, its reward and its KL term are one forward."""

from __future__ import annotations

from typing import Any

import torch

from planner.methods.grade.options import GradeOptions
from planner.methods.grade.step_loss import grade_loss
from planner.steps.batch import Rows
from planner.steps.run import Run, end_of_step, weights_on_device
from planner.steps.update import update_policy


def step(run: Run) -> None:
    """Forward and backward of every micro-batch, then the optimizer."""
    update_policy(run, _loss)
    end_of_step(run)


def _loss(run: Run, rows: Rows, places: slice) -> torch.Tensor:
    prompt = run.plan.prompt_tokens
    mask = None if rows.mask is None else rows.mask[:, :prompt]
    reference: Any = run.models.get("reference")
    reward_model: Any = run.models["reward model"]
    with weights_on_device(run, "reference"):
        loss: torch.Tensor = run.policy(
            lambda model: grade_loss(
                run.stage,
                model,
                None if reference is None else reference.model,
                reward_model.model,
                rows.ids[:, :prompt],
                mask,
                run.plan.response_tokens,
                GradeOptions.of(run.plan),
            )
        )
    return loss
