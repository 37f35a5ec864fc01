"""Late out of memory: the longest responses that a run will meet, and the odds of each step.

Memory is planned for the longest response there can be. Where that does not fit, a run may still
work for many steps, until a response comes that is too long: this says from how many tokens on, and
how soon. Evaluates the estimate at each length that the plan's distribution has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.grid import Grid
from planner.lengths import lengths_of
from planner.plan import Plan
from planner.quantities import quantities
from planner.sweep import judge

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
                f"{_share(self.reached)} of steps have one."
            )
        if not self.fitting_tokens or self.beyond > 0.999:
            return (
                f"The longest of a step has {self.usual_tokens:,} tokens on average, and that does "
                "not fit either."
            )
        fits = f"Responses of up to {self.fitting_tokens:,} tokens fit"
        if self.beyond < 1e-9:
            return f"{fits}, and practically no step has a longer one."
        return (
            f"{fits}; {_share(self.beyond)} of steps have longer ones, so the run ends out of "
            f"memory after about {max(1 / self.beyond, 1):,.0f} steps."
        )


def lateness(plan: Plan) -> Lateness | None:
    """What a plan's longest responses do; None for a plan without a distribution."""
    if not plan.length_distribution:
        return None
    lengths, q = lengths_of(plan), quantities(plan)
    longest, sequences = int(lengths.longest), int(q.sequences_per_step)
    usual = round(float(lengths.longest_of(sequences)))
    tried = sorted({*(int(one.tokens) for one in lengths.bins), usual, longest})
    peaks = _peaks(plan, tried)
    fitting = _fitting(plan, tried, peaks)
    return Lateness(
        longest_tokens=longest,
        reached=_some(float(lengths.reaching(longest)), sequences),
        usual_tokens=usual,
        usual_device_bytes=int(peaks[0][tried.index(usual)]),
        fitting_tokens=fitting,
        beyond=_beyond(plan, fitting),
    )


def _peaks(plan: Plan, tokens: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Peak bytes, and whether they fit, where no response is longer."""
    found = judge(Grid(plan.changed(length_distribution=""), {"response_tokens": tokens}))
    return found["device_bytes"], found["verdict"].codes < 2


def _fitting(plan: Plan, tried: list[int], peaks: tuple[np.ndarray, np.ndarray]) -> int:
    """The longest response that fits, to a token."""
    fits = peaks[1]
    if fits.all():
        return tried[-1]
    place = int(np.argmin(fits))
    low, high = (tried[place - 1] if place else 0), tried[place]
    while high - low > 1:
        step = sorted({low + (high - low) * part // 32 for part in range(1, 32)} - {low, high})
        inside = _peaks(plan, step)[1]
        first = int(np.argmin(inside)) if not inside.all() else len(step)
        low, high = (step[first - 1] if first else low), (step[first] if first < len(step) else high)
    return low


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


def _share(value: float) -> str:
    if 0.0005 <= value < 0.9995:
        return f"{value:.1%}" if value < 0.1 else f"{value:.0%}"
    return "all" if value > 0.5 else f"{value:.2g}"
