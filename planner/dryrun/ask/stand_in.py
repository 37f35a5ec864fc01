"""What of a plan the dry run executes, and what it leaves to the closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from planner.formulas import sharding, state
from planner.phases import sampled, zero
from planner.plan import Plan
from planner.plan.chosen import DEFAULTS
from planner.plan.fields import EIGHT_BIT, ROWS
from planner.plan.frameworks import OWN, framework_named, ours, own_step
from planner.plan.loss import foreign, has_path, path_of
from planner.plan.relevance import without_effect
from planner.plan.trainers import trainer_of
from planner.setup.quantities import pads_rollout
from planner.setup.setup import models_of
from planner.values.framework import Framework
from planner.values.sharding import sharding_of
from planner.values.step_phases import OLD_LOG_PROBS

OURS = "Headroom's step"
STATE = frozenset(("parameters", "gradients", "optimizer"))
GATHERED = frozenset(
    each.name
    for each in (sharding.GATHERED_ROOT, sharding.GATHERED_LAYERS, sharding.GATHERED_TABLE)
)
"""Weights that FSDP gathers and our step does, wherever their shards are."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """``plan`` is executed in place of the person's; ``by_formula`` categories come from formulas.

    ``added`` names further terms of the estimate that the executed step does not have, ``executed``
    terms of those categories that it has, ``away`` categories that wait in host RAM as soon as they
    are made, ``lacks`` instants that it has not, ``left_out`` phases of it, ``beside`` phases that
    only the executed step has. ``code`` is the framework whose code is executed, ``ran`` says so to
    people. ``otherwise`` are sentences about another loss or layout that ran than the plan's: each
    is one of the notes, and with any of them the figures are a check, not the plan's own.
    """

    plan: Plan
    by_formula: frozenset[str]
    added: frozenset[str]
    notes: tuple[str, ...]
    code: str = OWN
    ran: str = OURS
    left_out: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()
    executed: frozenset[str] = frozenset()
    away: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()
    otherwise: tuple[str, ...] = ()


def stand_in(plan: Plan, refused: str = "") -> StandIn:
    """The plan that is executed: the same, but for what has no code in the step.

    A framework's own code runs where it can, unless ``refused`` says why it does not; else ours,
    which decides as the framework's facts say (:mod:`planner.setup.setup`).
    """
    own = own_step(plan.framework)
    if own is not None:
        refused = refused or own.refusal(plan)
        if not refused:
            return _own(plan, own)
    changes: dict[str, Any] = {}
    by_formula: frozenset[str] = frozenset()
    away: frozenset[str] = frozenset()
    added: set[str] = set()
    beside: set[str] = set()
    notes: list[str] = []
    otherwise = [*_otherwise(plan, framework_named(plan.framework))]
    framework = framework_named(plan.framework)
    if not ours(plan.framework):
        label = framework.label
        changes["logits"] = path_of(plan)
        notes.append(refused or f"{label}'s own code did not run.")
        told = f"the plan's options and {label}'s dtypes"
        notes.append(f"{OURS} ran with {told}; it is no check of {label}'s code.")
        if not has_path(plan):
            notes.append(f"The loss that ran is {foreign(plan)}.")
    if trainer_of(plan.framework, plan.method).own_old_log_probs(plan):
        beside.add(OLD_LOG_PROBS.name)
        notes.append(f"{framework.label} makes no old log-probs here: the phase is left out.")
    if any(model.waits == "engine" for model in models_of(plan)):
        changes |= {"reward": "rule", "reward_model": ""}
        notes.append(f"{framework.label}'s engine for the reward model did not run.")
    if plan.liger:
        notes.append("Liger's kernels ran as stand-ins that make the same tensors.")
    if plan.finetuning == "qlora":
        notes.append("4-bit layers ran as stand-ins that make bitsandbytes' tensors.")
    if sharding_of(plan).zero > 0:
        changes |= {"sharding": "none", "master_dtype": "none", "gradient_dtype": plan.dtype}
        by_formula = STATE
        added |= sharding.ZERO_OWN
        otherwise.append(
            "DeepSpeed did not run: its sharded state and buckets come from the estimate."
        )
    if sharding_of(plan).fsdp == 1:
        changes["sharding"] = "fsdp2"
        added.add(sharding.FLAT_ROOT.name)
        otherwise.append("FSDP2 ran instead of FSDP1, which gathers weights in place, uncopied.")
    if sharding_of(plan).ddp:
        added.add(state.DDP_BUCKETS.name)
        notes.append("DDP's gradient buckets come from the estimate.")
    if pads_rollout(plan):
        added |= {sampled.ROWS.name, sampled.NUMBERS}
        notes.append(f"Rows that {framework.label} keeps on the GPU come from the estimate.")
    if plan.offload in ("optimizer", "all"):
        changes["offload"] = "none"
        by_formula = STATE
        if sharding_of(plan).fsdp and plan.offload == "all":
            # What is on the GPU of them is whole, and no state: the step makes and reduces it.
            by_formula, away = STATE - {"gradients"}, frozenset(("gradients",))
        notes.append("State that stays in host RAM all the time comes from the estimate.")
    if plan.optimizer in EIGHT_BIT:
        changes["optimizer"] = "sgd"
        by_formula |= {"optimizer"}
        notes.append("The 8-bit optimizer did not run: its state comes from the estimate.")
    for name in (each for each in ROWS if ROWS[each].not_run):
        if getattr(plan, name) != DEFAULTS[name] and name not in without_effect(plan):
            changes[name] = DEFAULTS[name]
            otherwise.append(ROWS[name].not_run)
    executed = plan.model_copy(update=changes) if changes else plan
    return StandIn(
        executed,
        by_formula,
        frozenset(added),
        (*notes, *otherwise),
        otherwise=tuple(otherwise),
        beside=frozenset(beside),
        executed=GATHERED if sharding_of(executed).fsdp == 2 else frozenset(),
        away=away,
        lacks=zero.INSTANTS if sharding_of(plan).zero else frozenset(),
    )


def _otherwise(plan: Plan, framework: Framework) -> Iterator[str]:
    """What of the framework's facts our step has no code for, where that changes memory."""
    label, fsdp = framework.label, sharding_of(plan).fsdp
    models = {model.role: model for model in models_of(plan)}
    reference = models.get("reference")
    if plan.liger and reference and not reference.liger:
        yield f"The reference ran with Liger's kernels too; {label} patches only the trained model."
    if reference and "weights" in reference.requires_gradients and models["policy"].autocast:
        yield (
            f"{label} does not freeze its reference, so autocast caches its weights; {OURS} "
            "freezes the reference."
        )
    if reference and reference.spread == "whole":
        yield f"{label} gathers its reference at once; {OURS} gathers layer by layer."
    if ("norm", "head") in framework.units and fsdp == 2:
        yield f"{label}'s head stays gathered between passes; {OURS} gathers it with the root."
    if _streams(plan):
        yield f"{label} streams its reference from host RAM; {OURS} brings it whole."
    if framework.decays_weights and plan.optimizer == "sgd":
        yield f"{label}'s optimizer decays weights; that of {OURS} does not."


def _streams(plan: Plan) -> bool:
    return any(model.waits == "host, streamed" for model in models_of(plan))


def _own(plan: Plan, own: Any) -> StandIn:
    """The plan itself, by the framework's own code."""
    left_out = own.left_out(plan)
    note = f"{own.NAME}'s own code ran, as an export of this plan starts it; what stands in for "
    note += f"kernels and data is listed in {own.DOCUMENT}."
    return StandIn(
        plan,
        by_formula=frozenset(),
        added=frozenset(),
        notes=(note, *filter(None, left_out.values())),
        code=plan.framework,
        ran=f"{own.NAME}'s own code",
        left_out=frozenset(left_out),
    )
