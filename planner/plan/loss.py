"""The loss that a plan names: the code that makes it, and what is said where nobody else has it.

A framework's own path runs wherever it has the one that a plan's ``logits`` names. Any other is
planned as named, by the code of this project's step (:data:`planner.values.loss_code.AS_NAMED`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.plan.fields import PlanFields as Plan
from planner.plan.frameworks import framework_named
from planner.plan.methods import method_of
from planner.values.framework import Framework
from planner.values.loss_code import CROSS_ENTROPY, POLICY, LossCode, Way


def way_of(plan: Plan) -> Way:
    """The code between hidden states and loss that runs in this plan."""
    return _code(plan).way(method_of(plan).objective, plan.logits)


def path_of(plan: Plan) -> str:
    """The path that runs in this plan."""
    return way_of(plan).path


def own_paths(plan: Plan) -> tuple[str, ...]:
    """What ``logits`` can name of the losses that the plan's framework itself has."""
    return tuple(_code(plan).own(method_of(plan).objective))


def has_path(plan: Plan) -> bool:
    """Whether the plan's framework itself has the loss that the plan names."""
    return plan.logits in own_paths(plan)


def names_anew(plan: Plan, changes: Mapping[str, Any]) -> bool:
    """Whether an edit would name a loss that the plan's framework has not: no run of it has that.

    What the plan names already stays.
    """
    return changes.get("logits", plan.logits) not in (plan.logits, *own_paths(plan))


def foreign(plan: Plan, framework: Framework | None = None) -> str:
    """What is planned in place of a framework's own loss, in plain words; empty where its own is.

    Args:
        plan: whose loss is asked for.
        framework: whose own it is compared with; the plan's unless told.
    """
    framework = framework or framework_named(plan.framework)
    version = plan.framework_version
    if version not in framework.loss:
        version = framework.versions[0]
    code = framework.loss[version]
    if plan.logits in code.own(method_of(plan).objective):
        return code.told.get(plan.logits, "")
    older = code.told.get(plan.logits, "as the plan names it")
    itself = ", or ".join(dict.fromkeys(way.called for way in code.own(POLICY).values()))
    return f"{_words(plan)}, {older}; {framework.label} {version} itself would take {itself}"


def _words(plan: Plan) -> str:
    """The named path, as people call it."""
    whole = method_of(plan).objective == CROSS_ENTROPY
    # transformers' own cross-entropy takes every position, and widens whatever a plan says.
    dtype = "fp32" if whole or plan.dtype == "fp32" else plan.logits_dtype
    return {
        "response": f"{dtype} logits of {'every position' if whole else 'the responses alone'}",
        "full": f"whole {dtype} logits",
        "chunked": f"chunks of {plan.chunk_tokens} tokens",
        "fused": "a fused linear cross-entropy",
    }[plan.logits]


def _code(plan: Plan) -> LossCode:
    return framework_named(plan.framework).loss_code(plan.framework_version)
