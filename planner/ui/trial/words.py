"""A trial's result as a verdict, its reasons and a table. Imports no Streamlit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from planner.footprint import Verdict
from planner.trial.ask.footprints import PhaseFigures
from planner.trial.ask.result import TrialResult
from planner.ui.tables import phase_name
from planner.units import read_seconds, read_seconds_between
from planner.wording.choices import card_names
from planner.wording.display import Unit

NOBODY = "—"
"""In a table, for what nobody predicted or measured."""
CLOSE = 0.05
"""Share of a prediction within which a measurement confirms it."""
LEVELS = {"cpu": "requested_bytes", "cuda": "reserved_bytes"}
"""What is compared: a processor has no caching allocator."""

Tone = Literal["good", "doubt", "bad", "neutral"]


@dataclass(frozen=True, slots=True)
class Words:
    """One verdict, then its reasons."""

    tone: Tone
    verdict: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A phase's memory, and the share by which the measurement is above the prediction."""

    phase: str
    predicted_bytes: int
    measured_bytes: int

    @property
    def above(self) -> float:
        """Measured ÷ predicted − 1."""
        return self.measured_bytes / self.predicted_bytes - 1


def words(result: TrialResult, unit: Unit, plans: Verdict) -> Words:
    """What a trial means for its plan.

    Args:
        result: the trial.
        unit: for memory.
        plans: the estimate's verdict on the plan, on the plan's own card.
    """
    if result.status != "completed":
        return _unfinished(result, unit)
    pairs = list(compared(result))
    worst = max(pairs, key=lambda pair: abs(pair.above), default=None)
    reasons = [_agreement(worst, unit)]
    if result.extrapolated:
        depths = " and ".join(str(one.layers) for one in result.ran)
        reasons.append(f"{depths} layers ran; the figures are extrapolated to all layers.")
    if result.censored:
        reasons.append(
            "PyTorch had to free its cache to go on, so these peaks show how much of the GPU was "
            "free, not how much the step needs. Free the GPU and run the trial again."
        )
    doubtful = worst is None or result.censored or worst.above > CLOSE
    tone: Tone = "doubt" if doubtful else "good"
    plan, device = result.planned(), result.device
    verdict = result.measured.verdict if result.measured else None
    if device.kind == "cpu":
        reasons.append(
            "The trial ran on a CPU: tensor memory can be compared with a GPU's; speed and the "
            f"memory that a GPU needs beside tensors cannot. {_of_the_plan(plans)}"
        )
    elif device.gpu != plan.gpu:
        card = card_names().get(plan.gpu, plan.gpu)
        reasons.append(
            f"The trial ran on {device.name}, but the plan is for {card}. {_of_the_plan(plans)}"
        )
    elif verdict is not None and not result.censored:
        tones: Mapping[str, Tone] = {"fits": tone, "tight": "doubt", "out of memory": "bad"}
        said = f"Measured: {verdict.sentence}"
        return Words(tones[verdict.word], said, (*verdict.lines, *reasons))
    return Words(tone, f"{_step(tone, worst)} Ran on {device.name}.", tuple(reasons))


def _step(tone: Tone, worst: Pair | None) -> str:
    if worst is None:
        return "The step runs; there is no prediction to compare it with."
    if tone == "good":
        return "The step runs, and memory is as predicted."
    if worst.above > CLOSE:
        return "The step runs, but needs more memory than predicted."
    return "The step runs, but memory was short."


def _agreement(worst: Pair | None, unit: Unit) -> str:
    if worst is None:
        return "There is no dry run to compare the trial with."
    farthest = (
        f"{worst.phase}, {unit.read(worst.measured_bytes)} measured and "
        f"{unit.read(worst.predicted_bytes)} predicted"
    )
    if worst.above > CLOSE:
        return (
            f"The prediction is up to {worst.above:.0%} too low ({farthest}): leave that much more "
            "memory free."
        )
    return f"Memory is within {share(worst.above)} of the prediction ({farthest})."


ENDS: Mapping[str, tuple[Tone, str, str]] = {
    "will not fit": ("bad", "The trial will not fit here, so nothing was run.", ""),
    "stopped": ("neutral", "Stopped; nothing was measured.", ""),
    "killed": (
        "bad",
        "The trial's process was killed.",
        "Run it again. If it is killed again, the machine has too little RAM: free some, or set a "
        "smaller micro-batch or shorter lengths.",
    ),
    "timed out": (
        "bad",
        "Stopped at the time limit.",
        "Raise the time limit under How it runs, or measure fewer steps.",
    ),
    "host memory": (
        "bad",
        "Stopped because the machine ran low on RAM.",
        "Close other programs, or set a smaller micro-batch or shorter lengths.",
    ),
}
"""How a trial can end without a measurement, and what to do."""
FAILED: tuple[Tone, str, str] = (
    "bad",
    "The trial failed.",
    "Its output is below. Change the plan, or run it on another device.",
)


def _unfinished(result: TrialResult, unit: Unit) -> Words:
    ended = result.out_of_memory
    tone, verdict, todo = ENDS.get(result.status, FAILED)
    told = [result.reason]
    if result.status == "out of memory" and ended is not None:
        verdict = f"Out of memory in {ended.phase}."
        if ended.asked_bytes is not None and ended.live_bytes is not None:
            told.append(
                f"The trial asked for {unit.read(ended.asked_bytes)} more while "
                f"{unit.read(ended.live_bytes)} were in use."
            )
        if ended.predicted is not None:
            agreed = "would not fit either" if ended.predicted.out_of_memory else "would fit"
            told.append(
                f"The dry run predicts {unit.read(ended.predicted.bytes)} in that phase, which "
                f"{agreed}."
            )
        todo = _fitting(result)
    elif result.status == "will not fit":
        todo = _fitting(result)
    return Words(tone, verdict, tuple(text for text in (*told, todo) if text))


def _fitting(result: TrialResult) -> str:
    ended = result.out_of_memory
    if ended is None or not ended.would_fit:
        return "No smaller trial of this plan is known to fit; choose a smaller model."
    return f"What would fit, by the dry run: {ended.would_fit_words}."


def compared(result: TrialResult) -> Iterator[Pair]:
    """Every phase whose memory was predicted and measured."""
    level = LEVELS[result.device.kind]
    for phase in _measured(result):
        said = result.predicted.phase(phase.name) if result.predicted else None
        predicted = getattr(said, level) if said and phase.rank == "trainer" else None
        measured = getattr(phase, level)
        if predicted and measured is not None:
            yield Pair(phase.name, predicted, measured)


def table(result: TrialResult, unit: Unit) -> pd.DataFrame:
    """One row per measured phase: memory and time, predicted and measured. Texts.

    Memory is predicted by the dry run of the same plan on the same kind of device; time by the
    estimate, which is for a GPU, so a trial on a processor has none beside it.
    """
    level = LEVELS[result.device.kind]
    pairs = {pair.phase: pair for pair in compared(result)}
    timed = result.estimated if result.device.kind != "cpu" else None
    rows = []
    for phase in _measured(result):
        pair = pairs.get(phase.name) if phase.rank == "trainer" else None
        measured = getattr(phase, level)
        expected = timed.phase(phase.name) if timed else None
        rows.append(
            {
                "Phase": phase_name(phase),
                "Memory, predicted": unit.read(pair.predicted_bytes) if pair else NOBODY,
                "Memory, measured": NOBODY if measured is None else unit.read(measured),
                "Difference": share(pair.above) if pair else NOBODY,
                "Time, predicted": _predicted(expected),
                "Time, measured": _seconds(phase.seconds),
                "First step": _seconds(phase.first_seconds),
            }
        )
    return pd.DataFrame(rows)


def _measured(result: TrialResult) -> tuple[PhaseFigures, ...]:
    return result.measured.phases if result.measured else ()


def _predicted(expected: PhaseFigures | None) -> str:
    if expected is None or expected.seconds is None:
        return NOBODY
    return read_seconds_between(expected.seconds, expected.low_seconds, expected.high_seconds)


def _seconds(seconds: float | None) -> str:
    return NOBODY if seconds is None else read_seconds(seconds)


def share(value: float) -> str:
    """A signed share: ``+0.02%``, ``−3.1%``; nothing but zeros has no sign."""
    digits = 2 if abs(value) < 0.01 else 1
    text = f"{value:+.{digits}%}".replace("-", "−")
    return text if text.strip("+−0.%") else text.lstrip("+−")


def _of_the_plan(plans: Verdict) -> str:
    return f"The estimate of the plan: {plans.sentence}"
