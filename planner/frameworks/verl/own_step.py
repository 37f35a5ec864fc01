"""Which plans a dry run executes with verl's own engine, and with which settings. No torch.

The settings are those that an export would write: verl's own YAML takes them as overrides.
"""

from __future__ import annotations

from importlib.util import find_spec

from planner.dryrun.ask.own_code import installed, not_run
from planner.frameworks.verl import FRAMEWORK
from planner.frameworks.verl.limits import obstacles
from planner.frameworks.verl.settings.model import KERNELS
from planner.plan import Plan
from planner.values.sharding import sharding_of
from planner.values.step_phases import ROLLOUT

NAME = f"{FRAMEWORK.label} {FRAMEWORK.versions[0]}"
"""Whose code it is."""
DOCUMENT = "docs/verl-step.md"
"""What is ours in place of theirs."""
PACKAGES = ("verl", "tensordict")
"""What is executed besides torch, transformers and peft."""
NEEDED = ("tensordict", "pyvers", "orjson", "hydra", "codetiming", "datasets", "ray")
"""What verl's engine imports and pip does not bring along with ``verl`` alone."""


def refusal(plan: Plan) -> str:
    """Why verl's own engine does not run a plan, as a sentence; empty where it does."""
    reasons = (
        (plan.framework_version != FRAMEWORK.versions[0], f"only {NAME}'s has been run here"),
        (installed("verl") != FRAMEWORK.versions[0], f"{NAME} is not installed here"),
        (
            bool(_missing()),
            f"{', '.join(_missing())} is not installed here (requirements/verl.txt)",
        ),
        (sharding_of(plan).fsdp != 2, "FSDP1's flat parameters do not run without data"),
        (plan.activation_offload, "offloaded activations wait on streams"),
        (plan.optimizer == "adamw-8bit", "the 8-bit optimizer is another package's"),
        (plan.logits == "fused", "its fused head is Triton's, kernel by kernel"),
        (
            plan.logits in KERNELS and plan.batch_shape != "packed",
            "its chunks pick rows that are padded by a mask of the device",
        ),
        (plan.reward == "model", "reward models read text"),
    )
    # Rows beyond the model's positions stop the engine as it starts, which no step here has.
    step = lambda: (one.why for one in obstacles(plan) if one.field != "response_tokens")  # noqa: E731
    return not_run(FRAMEWORK, reasons, step)


def no_trial(plan: Plan) -> str:
    """What stands in the way of a trial by verl's code, though not of its dry run."""
    if not plan.liger or find_spec("liger_kernel"):
        return ""
    return f"{FRAMEWORK.label}'s own code did not run: liger_kernel is not installed here."


def _missing() -> tuple[str, ...]:
    return tuple(name for name in NEEDED if find_spec(name) is None)


def left_out(plan: Plan) -> dict[str, str]:
    """Phases of the estimate that are not executed, and a sentence where that is a finding."""
    return {ROLLOUT.name: ""}
