"""Whose attention a trial runs: the plan's, or torch's where its kernels are not here. No torch."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from planner.plan import Plan, try_plan
from planner.setup.setup import models_of
from planner.trial.ask.endings import CannotRun

PACKAGES = {"flash": "flash_attn", "flash_attention_3": "flash_attn_interface"}
"""Modules that transformers imports for an attention, by the plan's name of it."""


def with_kernels_here(plan: Plan, kind: Literal["cpu", "cuda"]) -> tuple[Plan, tuple[str, ...]]:
    """The plan with an attention that runs on this machine's device, and a note where it differs.

    Raises:
        CannotRun: naming the field, where the model, its rows or the framework take no other.
    """
    for model in models_of(plan):
        asked = model.attention
        if asked != plan.attention and (why := _missing(asked, kind)):
            raise CannotRun(
                f"attention: {plan.framework} runs the {model.role} with {asked} attention "
                f"whatever attention says, and {why}."
            )
    missing = _missing(plan.attention, kind)
    if not missing:
        return plan, ()
    found, problems = try_plan({**plan.model_dump(), "attention": "sdpa"})
    if found is None:
        raise CannotRun(f"attention: {missing}; with torch's: {problems[0].sentence}")
    mask = ""
    if plan.batch_shape == "packed":
        mask = " Torch's attention needs a mask over packed rows: extra memory."
    return found, (f"{missing}: torch's attention ran in its place.{mask}",)


def _missing(attention: str, kind: Literal["cpu", "cuda"]) -> str:
    """Why an attention does not run on this machine's device; empty where it does."""
    package = PACKAGES.get(attention)
    if package is None or (kind == "cuda" and find_spec(package) is not None):
        return ""
    return (
        f"{package} is not installed here"
        if kind == "cuda"
        else "FlashAttention has no kernels for a processor"
    )
