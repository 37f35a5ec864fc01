"""Which plans a dry run executes with transformers' own Trainer. No torch.

Its arguments are those that an export writes.
"""

from __future__ import annotations

from planner.dryrun.ask.own_code import installed, not_run
from planner.frameworks.hf_trainer import FRAMEWORK, VERSION
from planner.frameworks.hf_trainer.limits import step_obstacles
from planner.launch.huggingface.precision import mixed_precision
from planner.plan import Plan
from planner.plan.fields import EIGHT_BIT
from planner.plan.trainers import trainer_of
from planner.values.sharding import sharding_of

NAME = f"{FRAMEWORK.label} {VERSION}"
"""Whose code it is."""
DOCUMENT = "docs/trainer-step.md"
"""What is ours in place of theirs."""
PACKAGES = ("transformers", "accelerate")
"""What is executed besides torch and peft."""


def refusal(plan: Plan) -> str:
    """Why its own code does not run a plan, as a sentence; empty where it does."""
    sharding = sharding_of(plan)
    reasons = (
        (trainer_of(FRAMEWORK.name, plan.method).missing, "it has no trainer of this method"),
        (installed("transformers") != VERSION, f"{NAME} is not installed here"),
        (not installed("accelerate"), "accelerate is not installed here"),
        (sharding.fsdp == 1, "FSDP1's flat parameters do not run without data"),
        (sharding.zero, "DeepSpeed's engine does not run without data"),
        (plan.compile, "compiled layers do not run without data"),
        (plan.optimizer in EIGHT_BIT and sharding.fsdp, "torchao's 8-bit optimizer is compiled"),
    )
    return not_run(FRAMEWORK, reasons, lambda: (one.why for one in step_obstacles(plan)))


def no_trial(plan: Plan) -> str:
    """Why a trial does not run a plan by it: whatever a dry run runs, a trial does."""
    return ""


def left_out(plan: Plan) -> dict[str, str]:
    """Phases of the estimate that are not executed: all are."""
    return {}


def autocasts(plan: Plan) -> bool:
    """Whether models run under autocast: FSDP2 casts what it gathers instead."""
    return mixed_precision(plan) != "no" and sharding_of(plan).fsdp != 2
