"""What cannot be, and what is not modelled yet: each with the field and the fix.

A rule is a condition over a plan (or over a sweep's grid, where fields are arrays) and a sentence.
What its fields alone tell stands in the row of the field that a rule is about, what a method or a
framework is asked for here, their own rules in their folders. :func:`problems_of`
judges one plan; a sweep asks each rule itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from planner.numeric import Num
from planner.plan.facts import fact_problems
from planner.plan.fields import NOT_MODELLED, REFUSED
from planner.plan.fields import PlanFields as Plan
from planner.plan.frameworks import framework_named
from planner.plan.lengths import dealt
from planner.plan.methods import method_of, methods, variations
from planner.plan.references import IN_LOSS
from planner.plan.trainers import able, trainer_for
from planner.problem import Problem
from planner.rule import Rule

ASKING: tuple[Rule, ...] = (
    Rule(
        "rollout",
        lambda p: not method_of(p).generates and p.rollout != "none",
        "This method generates nothing.",
        "Set rollout to none.",
    ),
    Rule(
        "rollout",
        lambda p: method_of(p).engines and method_of(p).generates and p.rollout == "none",
        "This method needs responses.",
        "Set rollout to hf, vllm-colocated or vllm-separate.",
    ),
    Rule(
        "rollout",
        lambda p: not method_of(p).engines and method_of(p).generates and p.rollout != "in-graph",
        "This method generates inside its training graph.",
        "Set rollout to in-graph.",
    ),
    Rule(
        "rollout",
        lambda p: p.rollout == "in-graph" and "in-graph" not in method_of(p).rollouts,
        "This method does not generate inside its training graph.",
        "Set rollout to hf, vllm-colocated or vllm-separate, or choose an in-graph method.",
    ),
    Rule(
        "responses_per_prompt",
        lambda p: (
            (method_of(p).most_responses is not None)
            & (p.responses_per_prompt != method_of(p).most_responses)
        ),
        "This method has one response per prompt.",
        "Set responses_per_prompt to 1.",
    ),
    Rule(
        "responses_per_prompt",
        lambda p: p.responses_per_prompt < method_of(p).least_responses,
        "Group advantages need at least two responses per prompt.",
        "Set responses_per_prompt to 2 or more.",
    ),
    Rule(
        "logprob_micro_batch_size",
        lambda p: (
            (method_of(p).objective == "policy")
            & (p.max_tokens_per_micro_batch == 0)
            & (p.logprob_micro_batch_size > dealt(p)[1])
        ),
        "logprob_micro_batch_size exceeds the sequences of one step on each GPU.",
        "Lower it.",
    ),
    Rule(
        "reference",
        lambda p: p.reference in IN_LOSS and p.kl == "reward",
        "This reference is scored inside the loss, too late for a KL term in the reward.",
        "Set kl to loss, or reference to copy, adapter-disabled or cached-logprobs.",
    ),
    Rule(
        "reference",
        lambda p: p.reference in IN_LOSS and not framework_named(p.framework).steps_are_ours,
        "No framework's trainer has this reference form.",
        "Set framework to plain, or set reference to one of: copy, offloaded, adapter-disabled, "
        "cached-logprobs.",
    ),
    Rule(
        "critic",
        lambda p: p.critic not in ("none", *method_of(p).critics),
        "This method cannot have the chosen critic.",
        "Set critic to none.",
    ),
)
"""What a method or a framework is asked for, of the fields that all plans have."""


def rules_of(plan: Plan) -> tuple[Rule, ...]:
    """Every rule that a plan, or a sweep's grid, is held to: its method's and framework's too.

    A framework has nothing to say of a method that it does not train.
    """
    trainer = trainer_for(plan)
    own = () if trainer.missing else framework_named(plan.framework).rules
    return (
        *NOT_MODELLED,
        *REFUSED,
        *ASKING,
        *_of_other_methods(plan.method),
        *method_of(plan).rules,
        *(rule for rule in own if isinstance(rule, Rule)),
        *trainer.rules,
    )


@cache
def _of_other_methods(name: str) -> tuple[Rule, ...]:
    """What one method alone has, and this one cannot have."""
    varied = (
        Rule(
            "variation",
            _is("variation", variation),
            f"{other.variations[variation].title} is a variation of {other.title} alone.",
            f"Set variation to none, or method to {other.name}.",
        )
        for variation, other in variations().items()
        if other.name != name
    )
    own = (
        Rule(
            field,
            _differs(field, plain := other.fields.model_fields[field].default),
            f"Only {other.title} has this setting.",
            f"Set {field} to {str(plain).lower()}, or method to {other.name}.",
        )
        for other in methods().values()
        if other.name != name and other.fields
        for field in other.refused_elsewhere
    )
    return (*varied, *own)


def _is(field: str, value: str) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) == value


def _differs(field: str, plain: Any) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) != plain


def untrained(plan: Plan) -> tuple[Problem, ...]:
    """A problem where the framework has no step for the method, or none that was read."""
    missing = trainer_for(plan).missing
    if not missing:
        return ()
    return (Problem("framework", missing, f"Set framework to {' or '.join(able(plan.method))}."),)


def problems_of(plan: Plan) -> tuple[Problem, ...]:
    """Every rule a single plan breaks; empty when it is possible and modelled."""
    found = [*fact_problems(plan), *untrained(plan)]
    for rule in rules_of(plan):
        if rule.broken(plan):
            value = getattr(plan, rule.field)
            found.append(Problem(rule.field, rule.message.format(value=value), rule.fix))
    return tuple(found)
