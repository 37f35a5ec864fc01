"""Measured ÷ predicted of stored trials, phase by phase, and a footprint corrected with it.

Factors are medians over trials of the same card, method and library versions; there is no factor
over phases, and none that a trial did not measure. They are applied when somebody asks, and a
corrected footprint keeps the one it was made of, so that it can be taken off. No torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import TypeVar

from planner.estimate import estimate, judged, step_seconds
from planner.factors import (
    DIGITS,
    HIGHEST,
    LOWEST,
    QUANTITIES,
    RUNGS,
    Factor,
    Factors,
    Quantity,
    Rung,
)
from planner.footprint import Footprint, Phase, Term
from planner.plan import Plan, try_plan
from planner.trial.figures import PhaseFigures
from planner.trial.result import TrialResult

FIELDS: Mapping[Quantity, str] = {
    quantity: quantity if quantity == "seconds" else f"{quantity}_bytes" for quantity in QUANTITIES
}
"""A quantity's name in a phase's figures, and in a footprint's phase."""

AnyPhase = TypeVar("AnyPhase", Phase, PhaseFigures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What trials must share for their factors to be put together.

    ``device`` is a card's key in the catalog; where the catalog lacks it, and for a CPU, its name.
    """

    device_kind: str
    device: str
    method: str
    torch: str
    transformers: str

    @property
    def words(self) -> str:
        """For a sentence or a choice."""
        versions = f"torch {self.torch or '?'}, transformers {self.transformers or '?'}"
        return f"{self.method} on {self.device}, {versions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Measured ÷ predicted of one number: the median, its range, and the trials behind it."""

    rung: Rung
    phase: str
    quantity: Quantity
    median: float
    lowest: float
    highest: float
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A footprint with factors applied; ``uncorrected`` is what taking them off gives back."""

    footprint: Footprint
    uncorrected: Footprint
    notes: tuple[str, ...]


def kind_of(result: TrialResult) -> Kind:
    """What a trial's factors hold for."""
    versions = result.environment.versions if result.environment else {}
    return Kind(
        device_kind=result.device.kind,
        device=result.device.gpu or result.device.name,
        method=result.planned().method,
        torch=versions.get("torch", ""),
        transformers=versions.get("transformers", ""),
    )


def counts(result: TrialResult) -> bool:
    """Whether a trial's figures say what the plan needs: it completed, and nothing was retried."""
    return result.status == "completed" and not result.censored and result.measured is not None


def ratios(results: Iterable[TrialResult], kind: Kind) -> tuple[Ratio, ...]:
    """Measured ÷ predicted of every phase and quantity that trials of a kind measured.

    Seconds of a trial with random lengths are left out: the prediction is of full ones.
    """
    found: dict[tuple[Rung, str, Quantity], list[float]] = {}
    for result in results:
        if not counts(result) or kind_of(result) != kind:
            continue
        for rung in RUNGS:
            for (phase, quantity), ratio in _of_one(result, said_by(rung, result)).items():
                found.setdefault((rung, phase, quantity), []).append(ratio)
    return tuple(
        Ratio(
            rung=rung,
            phase=phase,
            quantity=quantity,
            median=median(values),
            lowest=min(values),
            highest=max(values),
            trials=len(values),
        )
        for (rung, phase, quantity), values in found.items()
    )


def said_by(rung: Rung, result: TrialResult) -> Mapping[str, Phase | PhaseFigures]:
    """What a rung says of each phase of the plan a trial measured, on the trainer's GPU.

    The estimate is made anew, since the factors are for today's formulas and not for those of the
    trial's day; the dry run is the one recorded beside the measurement. Empty where there is none.
    """
    if rung == "dry run":
        return _trainers(result.predicted.phases) if result.predicted else {}
    # Its own plan and not the one that was asked: the trial's card may be another one.
    plan, _ = try_plan(result.estimated.plan) if result.estimated else (None, ())
    return {} if plan is None else _estimated(plan)


@lru_cache(maxsize=512)
def _estimated(plan: Plan) -> Mapping[str, Phase]:
    try:
        return _trainers(estimate(plan).phases)
    except ValueError:  # the plan is one that formulas refuse
        return {}


def _trainers(phases: Iterable[AnyPhase]) -> dict[str, AnyPhase]:
    return {phase.name: phase for phase in phases if phase.rank == "trainer"}


def _of_one(
    result: TrialResult, said: Mapping[str, Phase | PhaseFigures]
) -> dict[tuple[str, Quantity], float]:
    found: dict[tuple[str, Quantity], float] = {}
    for phase in result.measured.phases if result.measured else ():
        if phase.rank != "trainer" or phase.name not in said:
            continue
        for quantity in QUANTITIES:
            if quantity == "seconds" and result.lengths != "full":
                continue
            real, expected = (getattr(one, FIELDS[quantity]) for one in (phase, said[phase.name]))
            if real and expected:
                found[phase.name, quantity] = real / expected
    return found


def calibration(results: Iterable[TrialResult], kind: Kind) -> tuple[Factors, tuple[str, ...]]:
    """The factors of a kind, and notes on what has none.

    A ratio beyond :data:`LOWEST` to :data:`HIGHEST` becomes no factor: the prediction is wrong
    there, and the note says where.

    Raises:
        ValueError: when the device is no card of the catalog, or no trial gives a factor.
    """
    if kind.device_kind != "cuda":
        raise ValueError(
            "calibration: these trials ran on a CPU, and what a plan needs on a GPU does not "
            "follow from them. Run a trial on the plan's GPU."
        )
    found = ratios(results, kind)
    kept = [one for one in found if LOWEST <= one.median <= HIGHEST]
    notes = tuple(
        f"The {one.rung} of {one.phase} misses {one.quantity} by {one.median:.2f} times and is "
        "not corrected."
        for one in found
        if one not in kept
    )
    if not kept:
        raise ValueError(
            f"calibration: no stored trial of {kind.words} measured a phase beside its prediction."
        )
    factors = tuple(
        Factor(one.rung, one.phase, one.quantity, round(one.median, DIGITS), one.trials)
        for one in kept
    )
    return (
        Factors(
            gpu=kind.device,
            method=kind.method,
            torch=kind.torch,
            transformers=kind.transformers,
            factors=factors,
        ),
        notes,
    )


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
    return ""


def apply(factors: Factors, footprint: Footprint) -> Corrected:
    """The footprint with each phase's own factors applied, and its verdict found anew.

    A total without a factor stays as predicted, unless a total that it contains is larger then.
    Each corrected phase has one more term, so that its terms still add up to its device bytes.

    Raises:
        ValueError: when the factors are of another card, method or version (:func:`obstacle`).
    """
    why = obstacle(factors, footprint)
    if why:
        raise ValueError(why)
    phases = tuple(
        _corrected(phase, factors, footprint) if phase.rank == "trainer" else phase
        for phase in footprint.phases
    )
    left = [one.name for one, other in zip(footprint.phases, phases, strict=True) if one is other]
    changed = judged(replace(footprint, phases=phases, step_seconds=step_seconds(phases)))
    most = max(one.trials for one in factors.factors if one.rung == footprint.source)
    versions = f"torch {factors.torch or '?'}, transformers {factors.transformers or '?'}"
    note = (
        f"Corrected phase by phase with measured ÷ predicted of up to {_trials(most)} "
        f"({factors.method} on {factors.gpu}, {versions})."
    )
    notes = (note, *((f"Not corrected: {', '.join(left)}.",) if left else ()))
    return Corrected(
        footprint=replace(changed, notes=(*notes, *footprint.notes)),
        uncorrected=footprint,
        notes=notes,
    )


def _corrected(phase: Phase, factors: Factors, footprint: Footprint) -> Phase:
    known = {
        quantity: factors.of(footprint.source, phase.name, quantity) for quantity in QUANTITIES
    }
    if not any(known.values()):
        return phase
    sizes = _sizes(phase, known)
    spent = known["seconds"]
    seconds = phase.seconds
    if spent is not None and seconds is not None:
        seconds *= spent.factor
    terms = phase.terms
    added = sizes["device_bytes"] - phase.device_bytes
    if added:
        terms = (*terms, _term(phase, added, known, factors))
    return replace(
        phase,
        terms=terms,
        seconds=seconds,
        requested_bytes=sizes["requested_bytes"],
        allocated_bytes=sizes["allocated_bytes"],
        reserved_bytes=sizes["reserved_bytes"],
        device_bytes=sizes["device_bytes"],
    )


def _sizes(phase: Phase, known: Mapping[Quantity, Factor | None]) -> dict[str, int]:
    levels = [quantity for quantity in QUANTITIES if quantity != "seconds"]
    sizes: dict[str, int] = {FIELDS[level]: getattr(phase, FIELDS[level]) for level in levels}
    if not any(known[level] for level in levels):
        return sizes
    least = 0
    for level in levels:
        factor = known[level]
        size = sizes[FIELDS[level]]
        least = max(least, size if factor is None else round(size * factor.factor))
        sizes[FIELDS[level]] = least
    return sizes


def _term(
    phase: Phase, added: int, known: Mapping[Quantity, Factor | None], factors: Factors
) -> Term:
    found = [one for one in known.values() if one is not None and one.quantity != "seconds"]
    trials = max(one.trials for one in found)
    inputs: dict[str, float] = {
        f"predicted {FIELDS[q]}": getattr(phase, FIELDS[q]) for q in QUANTITIES if q != "seconds"
    }
    inputs |= {f"factor of {one.quantity}": one.factor for one in found}
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
