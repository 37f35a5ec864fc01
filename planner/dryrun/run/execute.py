"""Runs a plan's step on tensors without data, and returns the log of two steps."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any

from planner import registry
from planner.dryrun.logs import log as logs
from planner.dryrun.logs.depth import MARGIN, SHARDED_MARGIN, Pattern, expand, pattern_of
from planner.dryrun.logs.kinds import layer_kinds, shallow
from planner.dryrun.logs.log import Log
from planner.dryrun.logs.repeat import Irregular
from planner.dryrun.logs.rounds import unroll
from planner.dryrun.run.world import On, world
from planner.imports import imported_for_good
from planner.plan import Plan
from planner.plan.frameworks import OWN, ours
from planner.plan.methods import part
from planner.steps import models
from planner.steps import run as runs
from planner.values.sharding import sharding_of

STEPS = 2
"""The first step makes the optimizer's state; the second is the steady one."""

Configs = Mapping[str, Mapping[str, Any]]


def dry_run(
    plan: Plan,
    configs: Configs,
    *,
    full_depth: bool = False,
    full_length: bool = False,
    on: On = "gpu",
    code: str = OWN,
) -> Log:
    """The log of the plan's steps at the model's full depth and, of an unrolled loop, length.

    Args:
        plan: what to run; other frameworks' plans run our step with their options, unless ``code``
            names the framework.
        configs: config.json fields by role.
        full_depth: run every layer instead of repeating the block of a shallow run.
        full_length: run every round of an unrolled loop instead of the first and the last.
        on: whose branches to take; the CPU's are for comparisons with real runs there.
        code: the framework whose code is executed.

    Raises:
        ValueError: naming the field, for what the step has no code for.
    """
    if plan.finetuning != "full":
        # Classes of its have tensors: imported in a run, they would be among the run's.
        imported_for_good("peft")
    filled = {role: filled_in(config) for role, config in configs.items()}
    pattern = None if full_depth else _pattern(plan, filled)
    if not ours(code):
        theirs = imported_for_good(registry.name_of("frameworks", code, "run.step"))

        def whole(configs: Configs) -> Log:
            return theirs.execute(plan, configs, on)  # type: ignore[no-any-return]
    else:

        def whole(configs: Configs) -> Log:
            return _whole_length(plan, configs, on, full_length)

    if pattern is None or not pattern.copies:
        return whole(filled)
    cut = {role: shallow(config, pattern.shallow) for role, config in filled.items()}
    return _completed(
        lambda: expand(whole(cut), pattern), lambda: whole(filled),
        "depth",
    )


def _whole_length(plan: Plan, configs: Configs, on: On, full: bool) -> Log:
    """The log with every round of an unrolled loop, at the depth of the configs."""

    def executed(full_length: bool) -> Log:
        return execute(plan, configs, on, full_length=full_length)

    if full:
        return executed(True)
    return _completed(
        lambda: unroll(executed(False), plan.prompt_tokens), lambda: executed(True), "length"
    )


def _completed(short: Callable[[], Log], whole: Callable[[], Log], what: str) -> Log:
    """A run that was cut short and put together again; where that cannot be, the whole one."""
    try:
        return short()
    except Irregular as reason:
        log = whole()
        log.notes.append(f"Run at full {what}: {reason}.")
        return log


def repeated(plan: Plan, configs: Configs) -> Pattern | None:
    """How the layers of all the plan's models repeat; None when not all repeat alike."""
    return _pattern(plan, {role: filled_in(config) for role, config in configs.items()})


def _pattern(plan: Plan, filled: Configs) -> Pattern | None:
    margin = SHARDED_MARGIN if sharding_of(plan).fsdp > 0 else MARGIN
    patterns = {pattern_of(layer_kinds(config), margin) for config in filled.values()}
    return patterns.pop() if len(patterns) == 1 else None


def filled_in(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with every default of its transformers class filled in."""
    settings: dict[str, Any] = models.settings_of(config, "eager").to_dict()
    return {**settings, "model_type": config["model_type"]}


def execute(plan: Plan, configs: Configs, on: On = "gpu", *, full_length: bool = False) -> Log:
    """The log of two steps with the models exactly as the configs say.

    Unless at ``full_length``, rounds of an unrolled loop are left out of it.
    """
    step = part(plan.method, "step", "step")
    with world(plan, on) as (tracker, stage, wrap):
        stage.whole_length = full_length
        with tracker:
            run = runs.build(plan, stage, configs, wrap)
            gc.collect()
            runs.send_away(run)
            tracker.settle()
            for index in range(STEPS):
                tracker.log.events.append((logs.STEP, index, 0))
                stage.first = index == 0
                step(run)
            length = len(tracker.log.events)
        del run
    del tracker.log.events[length:]
    return tracker.log
