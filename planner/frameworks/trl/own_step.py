"""Which plans a dry run executes with TRL's own code, and with which arguments. No torch.

The arguments are those that an export would write: TRL's own parser reads them.
"""

from __future__ import annotations

from planner.dryrun.ask.own_code import installed, not_run
from planner.frameworks.trl import FRAMEWORK, exporter
from planner.frameworks.trl.limits import step_obstacles
from planner.frameworks.trl.own import Own
from planner.launch.huggingface.precision import mixed_precision
from planner.launch.huggingface.processes import zero
from planner.plan import Plan
from planner.plan.fields import EIGHT_BIT
from planner.plan.trainers import trainer_of
from planner.values.sharding import sharding_of
from planner.values.step_phases import ROLLOUT

NAME = f"{FRAMEWORK.label} {FRAMEWORK.versions[0]}"
"""Whose code it is."""
DOCUMENT = "docs/trl-step.md"
"""What is ours in place of theirs."""
PACKAGES = ("trl", "accelerate")
"""What is executed besides torch, transformers and peft."""


def own_of(plan: Plan) -> Own | None:
    """The classes of a plan's method; None where none were tried."""
    found: Own | None = trainer_of(FRAMEWORK.name, plan.method).own
    return found


def refusal(plan: Plan) -> str:
    """Why TRL's own code does not run a plan, as a sentence; empty where it does."""
    own, sharded = own_of(plan), sharding_of(plan).fsdp == 2
    reasons = (
        (own is None, "its trainer of this method has not been run without data"),
        (plan.framework_version != FRAMEWORK.versions[0], f"only {NAME}'s has been"),
        (installed("trl") != FRAMEWORK.versions[0], f"{NAME} is not installed here"),
        (sharding_of(plan).fsdp == 1, "FSDP1's flat parameters do not run without data"),
        (zero(plan), "DeepSpeed's engine does not run without data"),
        (plan.compile, "compiled layers do not run without data"),
        (plan.optimizer in EIGHT_BIT and sharded, "torchao's 8-bit optimizer is compiled"),
        (plan.reward == "model", "reward models read text"),
    )
    return not_run(FRAMEWORK, reasons, lambda: (one.why for one in step_obstacles(plan)))


def no_trial(plan: Plan) -> str:
    """Why a trial does not run a plan by TRL's code, as a sentence; empty where it does.

    What :func:`refusal` says is said there.
    """
    if plan.rollout == "hf":
        return (
            f"{FRAMEWORK.label}'s own code did not run: it was given its responses, and a trial "
            "samples them."
        )
    return ""


def left_out(plan: Plan) -> dict[str, str]:
    """Phases of the estimate that are not executed, and a sentence where that is a finding."""
    return {ROLLOUT.name: ""}


def autocasts(plan: Plan) -> bool:
    """Whether models run under autocast.

    FSDP2 casts what it gathers instead; trainers that sample ask accelerate for it all the same.
    """
    own = own_of(plan)
    samples = own is not None and own.rows == "prompts"
    return mixed_precision(plan) != "no" and (samples or sharding_of(plan).fsdp != 2)


def arguments(plan: Plan) -> dict[str, object]:
    """Every setting that the plan decides, by the names of TRL's own parser."""
    return exporter.settings(plan)
