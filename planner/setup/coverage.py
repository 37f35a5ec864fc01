"""Plans that pass every rule and that no formula covers: asked of each model, without a sum.

A formula refuses what nobody derived or what a library refuses itself (Gemma 2 with SDPA, a
compiled layer of a family that was never traced). Asking when the plan is made means that every
plan that exists can be estimated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.catalog.architecture import Architecture
from planner.formulas.activations.coverage import beyond, refuse_uncovered
from planner.formulas.activations.workload import Workload
from planner.numeric import Num
from planner.plan import Plan, references
from planner.plan.facts import Facts, facts_of
from planner.plan.methods import method_of
from planner.problem import Problem
from planner.setup.setup import Setup, setup_of
from planner.setup.workload import inference_workload, prompt_workload, training_workload


def uncovered(
    plan: Plan, setup: Setup | None = None, facts: Facts | None = None
) -> list[Problem]:
    """What is not covered of a plan that breaks no rule; empty when all is.

    ``setup`` and ``facts`` are its own, where somebody has them already.
    """
    facts = facts or facts_of(plan)
    try:
        for arch, workload in _passes(plan, setup or setup_of(plan), facts):
            refuse_uncovered(arch, workload)
    except ValueError as error:
        return [_problem(str(error), frozenset(getattr(type(plan), "model_fields", ())))]
    return list(method_of(plan).fact_problems(plan, facts))


def too_long(plan: Plan, setup: Setup, facts: Facts) -> Num:
    """Where rows of a sweep are longer than measured layers answer for."""
    found: Num = False
    for arch, workload in _passes(plan, setup, facts):
        found = found | beyond(arch, workload)
    return found


def _passes(
    plan: Plan, setup: Setup, facts: Facts
) -> Iterator[tuple[Architecture, Workload]]:
    """Every way in which a model of the plan runs."""
    generates = plan.rollout == "hf"
    for model in setup.models:
        arch = getattr(facts, model.config)
        if model.kind == "head":
            continue
        if model.trained:
            yield arch, training_workload(setup, model, facts.gpu)
        base = model.adapted and references.compares(plan)
        yield arch, inference_workload(setup, model, facts.gpu, disabled=base)
        if generates and model.role == "policy":
            yield arch, prompt_workload(setup, model, facts.gpu)


def _problem(sentence: str, fields: frozenset[str]) -> Problem:
    """The problem a formula's sentence is about: the first word in it that is a field.

    Formulas speak of a layer's ``compiled`` and ``precision``; a person set other fields.
    """
    sentence = re.sub(r"\bcompiled (is set|to)\b", r"compile \1", sentence)
    sentence = re.sub(r"\bprecision (is|to)\b", r"dtype \1", sentence)
    named = next((word for word in re.findall(r"\w+", sentence) if word in fields), "model")
    text = sentence.removeprefix(f"{named}: ").rstrip(".")
    complaint, found, fix = text.partition("; ")
    return Problem(named, f"{_capital(complaint)}.", f"{_capital(fix)}." if found else "")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
