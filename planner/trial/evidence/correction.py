"""A footprint corrected with factors of trials, when somebody asks for it, and taken off again.

Each phase by its own factors, which ``calibration`` takes from trials. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.estimate import judged
from planner.footprint import Footprint, Phase, StatedError
from planner.plan.factors import QUANTITIES, Factor, Factors, Quantity
from planner.term import Term
from planner.timing.step import of_phases
from planner.trial.evidence.calibration import FIELDS

LEVELS = tuple(quantity for quantity in QUANTITIES if quantity != "seconds")
LEFT = StatedError(
    low=None,
    high=None,
    source="corrected by trials, and nobody knows the error that is left. Keep at least 10% free.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A footprint with factors applied, and what to know of it."""

    footprint: Footprint
    notes: tuple[str, ...]


def obstacle(factors: Factors, footprint: Footprint) -> str:
    """Why factors do not hold for a footprint, naming the field; empty when they do."""
    plan = footprint.plan
    torch = factors.torch.partition("+")[0]
    for field, wanted, own in (
        ("gpu", factors.gpu, plan.gpu),
        ("method", factors.method, plan.method),
        ("torch_version", torch, plan.torch_version.partition("+")[0]),
    ):
        if wanted != own:
            return (
                f"{field}: the calibration is of {wanted or 'an unknown version'}, and the plan "
                f"has {own}; nothing is corrected."
            )
    if all(one.rung != footprint.source for one in factors.factors):
        return f"calibration: it holds no factor for a {footprint.source}; nothing is corrected."
    if footprint.source == "estimate" and any(one.source == "dry run" for one in footprint.phases):
        return "calibration: the figures build on another plan's dry run; nothing is corrected."
    return ""


def apply(factors: Factors, footprint: Footprint) -> Corrected:
    """The footprint with each phase's own factors applied, and its verdict found anew.

    A total without a factor stays as predicted, unless a total that it contains is larger then.
    Seconds stay where the footprint was given a benchmark: the factors were taken of the catalog's
    shares, and both would count the same difference twice.
    Each corrected phase has one more term, so that its terms still add up to its device bytes.

    Raises:
        ValueError: when the factors are of another card, method or version (:func:`obstacle`).
    """
    why = obstacle(factors, footprint)
    if why:
        raise ValueError(why)
    phases = tuple(_corrected(phase, factors, footprint) for phase in footprint.phases)
    left = [one.name for one, other in zip(footprint.phases, phases, strict=True) if one is other]
    changed = judged(
        replace(
            footprint,
            phases=phases,
            step_seconds=of_phases(footprint.plan.rollout_overlap, phases),
            error=LEFT,
        )
    )
    most = max(one.trials for one in factors.factors if one.rung == footprint.source)
    versions = f"torch {factors.torch or '?'}, transformers {factors.transformers or '?'}"
    note = (
        f"Corrected phase by phase with measured ÷ predicted of up to {_trials(most)} "
        f"({factors.method} on {factors.gpu}, {versions})."
    )
    notes = (note, *((f"Not corrected: {', '.join(left)}.",) if left else ()))
    if footprint.speeds is not None and any(one.quantity == "seconds" for one in factors.factors):
        notes = (*notes, "Seconds are not corrected: they rest on the benchmark.")
    changed = replace(changed, notes=(*notes, *footprint.notes))
    return Corrected(footprint=changed, notes=notes)


def _corrected(phase: Phase, factors: Factors, footprint: Footprint) -> Phase:
    known = {
        quantity: factors.of(footprint.source, phase.name, quantity)
        for quantity in QUANTITIES
        if quantity != "seconds" or footprint.speeds is None
    }
    if phase.rank != "trainer" or not any(known.values()):
        return phase
    sizes = _sizes(phase, known)
    spent, seconds = known.get("seconds"), phase.seconds
    if spent is not None and seconds is not None:
        seconds *= spent.factor
    terms = phase.terms
    added = sizes["device_bytes"] - phase.device_bytes
    if added:
        terms = (*terms, _term(phase, added, known, factors))
    # What was measured of the prediction is in the factors now.
    return replace(phase, terms=terms, error=None, seconds=seconds, **sizes)


def _sizes(phase: Phase, known: Mapping[Quantity, Factor | None]) -> dict[str, Any]:
    sizes: dict[str, Any] = {FIELDS[level]: getattr(phase, FIELDS[level]) for level in LEVELS}
    if not any(known[level] for level in LEVELS):
        return sizes
    least = 0
    for level in LEVELS:
        factor, size = known[level], sizes[FIELDS[level]]
        least = max(least, size if factor is None else round(size * factor.factor))
        sizes[FIELDS[level]] = least
    return sizes


def _term(
    phase: Phase, added: int, known: Mapping[Quantity, Factor | None], factors: Factors
) -> Term:
    found = [one for one in known.values() if one is not None and one.quantity != "seconds"]
    trials = max(one.trials for one in found)
    inputs: dict[str, float] = {
        **{f"predicted {FIELDS[level]}": getattr(phase, FIELDS[level]) for level in LEVELS},
        **{f"factor of {one.quantity}": one.factor for one in found},
    }
    return Term(
        name=f"correction by {_trials(trials)}",
        role="process",
        category="device",
        bytes=added,
        formula="corrected device bytes - predicted device bytes",
        inputs=inputs,
        source=f"trials of {factors.method} on {factors.gpu}: median of measured ÷ predicted",
        ignores="which tensors it is: a trial measures totals",
    )


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"
