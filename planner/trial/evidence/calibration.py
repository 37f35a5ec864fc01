"""Measured ÷ predicted of stored trials, phase by phase and quantity by quantity.

Factors are medians over trials of the same card, method and library versions; there is no factor
over phases, and none that a trial did not measure. ``correction`` applies them. No torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import TypeVar

from planner.estimate import estimate
from planner.footprint import Phase
from planner.plan import Plan, try_plan
from planner.plan.factors import (
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
from planner.trial.ask.footprints import PhaseFigures
from planner.trial.ask.result import TrialResult

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


def kind_of(result: TrialResult) -> Kind:
    """What a trial's factors hold for."""
    return Kind(
        device_kind=result.device.kind,
        device=result.device.gpu or result.device.name,
        method=result.planned().method,
        torch=result.versions.get("torch", ""),
        transformers=result.versions.get("transformers", ""),
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
    return {} if plan is None else estimated(plan)


@lru_cache(maxsize=512)
def estimated(plan: Plan) -> Mapping[str, Phase]:
    """What the estimate says of each phase on the trainer's GPU; empty where formulas refuse."""
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
        f"{one.phase}, {one.quantity}: measured is {one.median:.2f} times the {one.rung}'s "
        "figure, which is too far off to correct."
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
    of = {name: getattr(kind, name) for name in ("method", "torch", "transformers")}
    return Factors(gpu=kind.device, factors=factors, **of), notes
