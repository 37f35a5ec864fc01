"""Which fields have no effect in a plan, and why.

Pages hide these fields; an estimate notes those that were set away from their default. What other
fields tell stands in a field's row, a method's own say in its folder.
"""

from __future__ import annotations

from functools import cache

from planner.plan import references
from planner.plan.fields import IDLE
from planner.plan.fields import PlanFields as Plan
from planner.plan.fields.training import autocasts
from planner.plan.frameworks import framework_named
from planner.plan.loss import path_of
from planner.plan.methods import method_of, methods
from planner.rule import NoEffect
from planner.values.loss_code import CROSS_ENTROPY

ASKING: tuple[NoEffect, ...] = (
    NoEffect(
        ("disk_bytes_per_second",),
        "nothing is read from a disk or written to it",
        lambda plan: plan.save_steps == 0 and not references.on_disk(plan),
    ),
    NoEffect(("reference",), "there is no KL term", lambda plan: not references.compares(plan)),
    NoEffect(
        ("critic", "critic_model"),
        "this method has no critic",
        lambda plan: method_of(plan).critics == ("none",),
    ),
    NoEffect(
        ("temperature",),
        "no engine samples",
        lambda plan: not (method_of(plan).engines and method_of(plan).generates),
    ),
    NoEffect(
        ("chunk_tokens", "chunk_compile"),
        "the loss does not work in chunks",
        lambda plan: path_of(plan) != "chunked",
    ),
    NoEffect(
        ("logits_dtype",),
        "the dtype is fixed by the path",
        lambda plan: plan.dtype == "fp32" or "fused" in (plan.logits, path_of(plan)),
    ),
    NoEffect(
        ("logits_dtype",),
        "autocast runs softmax in fp32",
        lambda plan: path_of(plan) in ("full", "response") and autocasts(plan),
    ),
    NoEffect(
        ("logits_dtype",),
        "the loss widens whole logits to fp32",
        lambda plan: path_of(plan) in ("full", "response")
        and method_of(plan).objective == CROSS_ENTROPY,
    ),
    NoEffect(("variation",), "this method has none", lambda plan: not method_of(plan).variations),
)
"""What more than a plan's fields is asked for: its method, its loss, its reference."""


@cache
def _of_other_methods(name: str) -> tuple[NoEffect, ...]:
    return tuple(
        NoEffect(other.own_fields, f"only {other.title} has it")
        for other in methods().values()
        if other.name != name and other.fields
    )


def without_effect(plan: Plan) -> dict[str, str]:
    """Field → reason, for every field that changes nothing in this plan."""
    found: dict[str, str] = {}
    for rule in (
        *method_of(plan).without_effect,
        *_of_other_methods(plan.method),
        *ASKING,
        *IDLE,
        *(each for each in framework_named(plan.framework).rules if isinstance(each, NoEffect)),
    ):
        if rule.applies(plan):
            for field in rule.fields:
                found.setdefault(field, rule.reason)
    return found
