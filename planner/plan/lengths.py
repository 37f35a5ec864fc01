"""The rows of a plan or of a sweep's grid: how long they are, and how many of them a GPU has."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from planner.lengths.text import from_text
from planner.lengths.value import Bin, Lengths, clipped, point
from planner.numeric import Num, ceil_div, maximum, round_up, some, where
from planner.plan.fields import PlanFields as Plan
from planner.values.dealing import data_parallel


def lengths_of(plan: Plan) -> Lengths:
    """Response lengths of a plan or grid; every response at the cap where it has none."""
    return _cut_at(plan, plan.response_tokens)


def validation_lengths_of(plan: Plan) -> Lengths:
    """The same of a validation's responses: of the same shape, up to a cap of their own."""
    return _cut_at(plan, plan.validation_response_tokens)


def prompt_of(plan: Plan) -> Num:
    """Tokens of a prompt on average, of a plan or grid; at its cap where the plan has no mean."""
    if not says_prompts(plan):
        return plan.prompt_tokens
    return where(plan.mean_prompt_tokens > 0, plan.mean_prompt_tokens, plan.prompt_tokens)


def says_prompts(plan: Plan) -> bool:
    """Whether somebody said how long prompts are on average, in any plan of a grid."""
    return some(plan.mean_prompt_tokens)


def at_caps(plan: Plan) -> bool:
    """Whether every prompt and every response is planned at its cap."""
    return not plan.length_distribution and not says_prompts(plan)


def _cut_at(plan: Plan, cap: Any) -> Lengths:
    text: str = plan.length_distribution
    if not text:
        return point(cap)
    return clipped(*_bins(text), cap) if isinstance(cap, np.ndarray) else _cut(text, cap)


def at_longest(plan: Plan) -> Any:
    """The plan whose every response is the longest there can be: what a step is really run at."""
    if at_caps(plan):
        return plan
    longest = int(lengths_of(plan).longest)
    changes: dict[str, Any] = {"length_distribution": "", "response_tokens": longest}
    changes["mean_prompt_tokens"] = 0
    if plan.validation_response_tokens == plan.response_tokens:
        changes["validation_response_tokens"] = longest
    return plan.changed(**changes)


def dealt(plan: Plan) -> tuple[Num, Num]:
    """Responses that each GPU has in an update and in a step.

    Where they do not fill every GPU's micro-batches, rows that are there already fill them up: as
    accelerate's ``BatchSamplerShard`` (``even_batches``, data_loader.py of 1.15) and torch's
    ``DistributedSampler`` have it. A trainer that stops there refuses the plan by a rule, and so do
    all sizes of a sweep. A budget of tokens makes micro-batches of any rows.
    """
    gpus = maximum(data_parallel(plan), 1)
    each = ceil_div(plan.prompts_per_update * plan.responses_per_prompt, gpus)
    size, budget = plan.micro_batch_size, plan.max_tokens_per_micro_batch
    if any(map(np.ndim, (each, size, budget))):
        return each, ceil_div(plan.prompts_per_step * plan.responses_per_prompt, gpus)
    each = each if budget else round_up(each, size)
    return each, each * ceil_div(plan.prompts_per_step, plan.prompts_per_update)


@lru_cache(maxsize=256)
def _cut(text: str, cap: int) -> Lengths:
    """Kept, since what follows from a value is computed once for it."""
    return clipped(*_bins(text), cap)


@lru_cache(maxsize=256)
def _bins(text: str) -> tuple[tuple[Bin, ...], int]:
    shape = from_text(text)
    return shape.bins, shape.longest
