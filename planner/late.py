"""Late out of memory: the longest responses that a run will meet, and the odds of each step.

Memory is planned for the longest response there can be. Where that does not fit, a run may still
work for many steps, until a response comes that is too long: this says from how many tokens on, and
how soon. Evaluates the estimate at each length that the plan's distribution has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.lengths import lengths_of
from planner.setup.quantities import quantities
from planner.sweeps.table import rows

Bytes = npt.NDArray[np.int64]
Fits = npt.NDArray[np.bool_]
PARTS = 32
"""Stretches that a search is cut into at a time: one pass judges them all."""
CELLS = 512
"""Parts that a length is told in where several are added up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """What the longest responses of a run do to its memory; shares are of its steps.

    ``longest_tokens`` is what memory is planned for, ``reached`` the share of steps that have such
    a response, ``usual_tokens`` the longest response of a step on average and
    ``usual_device_bytes`` its peak. ``fitting_tokens`` is the longest response that fits: all of
    them where it is ``longest_tokens``, none where it is 0; ``beyond`` is the share of steps that
    have more.
    """

    longest_tokens: int
    reached: float
    usual_tokens: int
    usual_device_bytes: int
    fitting_tokens: int
    beyond: float

    @property
    def sentence(self) -> str:
        """The same in words."""
        if self.fitting_tokens == self.longest_tokens:
            return (
                f"Memory is planned for responses of {self.longest_tokens:,} tokens; "
                f"{_steps(self.reached)} one that long."
            )
        if not self.fitting_tokens or self.beyond > 0.999:
            return (
                f"The longest response of a step has {self.usual_tokens:,} tokens on average, and "
                "that length does not fit either."
            )
        fits = f"Responses of up to {self.fitting_tokens:,} tokens fit"
        if self.beyond < 1e-9:
            return f"{fits}; next to no step has longer ones."
        soon = f"after about {1 / self.beyond:,.0f} steps" if self.beyond < 0.7 else "at once"
        return f"{fits}; {_steps(self.beyond)} longer ones, so the run ends out of memory {soon}."


def lateness(footprint: Footprint) -> Lateness | None:
    """What a plan's longest responses do; None where it has no distribution, or does not start."""
    plan = footprint.plan
    if not plan.length_distribution or footprint.blockers:
        return None
    lengths, q = lengths_of(plan), quantities(plan)
    longest, sequences = int(lengths.longest), int(q.sequences_per_step)
    usual = round(float(lengths.longest_of(sequences)))
    tried = sorted({*(int(one.tokens) for one in lengths.bins), usual, longest})
    peaks = _peaks(plan, tried)
    fitting = _fitting(plan, tried, peaks <= footprint.budget_bytes, footprint.budget_bytes)
    return Lateness(
        longest_tokens=longest,
        reached=_some(float(lengths.reaching(longest)), sequences),
        usual_tokens=usual,
        usual_device_bytes=int(peaks[tried.index(usual)]),
        fitting_tokens=fitting,
        beyond=_beyond(plan, fitting),
    )


def longest_responses(footprint: Footprint) -> str:
    """The sentence, for an answer in words; empty where there is nothing to say."""
    found = lateness(footprint)
    return "" if found is None else found.sentence


def _peaks(plan: Plan, tokens: Sequence[int]) -> Bytes:
    """Peak bytes where no response is longer, for each of these lengths."""
    capped = plan.changed(length_distribution="")
    [(_, columns)] = rows(capped, [{}], {"response_tokens": tokens})
    peaks: Bytes = columns["device_bytes"][0]
    return peaks


def _fitting(plan: Plan, tried: Sequence[int], fits: Fits, budget_bytes: int) -> int:
    """The longest response that fits, to a token; more tokens never need less."""
    if fits.all():
        return tried[-1]
    marks: Sequence[int] = (0, *tried)
    while True:
        first = 1 + int(np.argmin((*fits, False)))
        low, high = marks[first - 1], marks[first]
        if high - low == 1:
            return low
        inside = sorted({low + (high - low) * part // PARTS for part in range(1, PARTS)} - {low})
        marks, fits = (low, *inside, high), _peaks(plan, inside) <= budget_bytes


def _beyond(plan: Plan, fitting: int) -> float:
    """Share of steps with a micro-batch that needs more than responses of ``fitting`` tokens do.

    A padded row is as long as the longest beside it; packed rows add up, in micro-batches of which
    the smaller ones are the less even. A token budget is filled whatever the lengths are.
    """
    lengths, q = lengths_of(plan), quantities(plan)
    sequences = int(q.sequences_per_step)
    if fitting == int(lengths.longest):
        return 0.0
    if plan.batch_shape != "packed":
        return _some(float(lengths.reaching(fitting + 1)), sequences)
    if plan.max_tokens_per_micro_batch:
        return 1.0
    together = int(min(q.micro_sequences, q.logprob_sequences))
    cell = lengths.longest / CELLS
    shares = np.zeros(CELLS + 1)
    for one in lengths.bins:
        shares[int(np.ceil(one.tokens / cell))] += one.share
    size = together * CELLS + 1
    summed = np.fft.irfft(np.fft.rfft(shares, 2 * size) ** together, 2 * size)[:size]
    above = float(summed[int(together * fitting / cell) + 1 :].sum())
    return _some(min(max(above, 0.0), 1.0), sequences // together)


def _some(share: float, count: int) -> float:
    """The chance that at least one of ``count`` is among the share."""
    return float(-np.expm1(count * np.log1p(-share))) if share < 1 else 1.0


def _steps(share: float) -> str:
    if share > 0.9995:
        return "every step has"
    if share < 0.0005:
        return f"one step in {1 / max(share, 1e-12):,.0f} has"
    return f"{share:.1%} of steps have" if share < 0.1 else f"{share:.0%} of steps have"
