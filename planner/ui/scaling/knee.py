"""Time against GPUs: ideal scaling, and the last count that is worth it. Imports no Streamlit."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from planner.units import read_count, read_seconds

WORTH = 0.7
"""Parallel efficiency at and above which a count is taken to be worth its GPUs."""
FORMULA = "Efficiency: GPUs₀ · seconds₀ ÷ (GPUs · seconds)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How well steps get faster with GPUs, of counts at which the plan runs, the least first."""

    gpus: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def ideal(self) -> tuple[float, ...]:
        """Seconds if all GPUs were as useful as those of the least count."""
        first = self.gpus[0] * self.seconds[0]
        return tuple(first / count for count in self.gpus)

    @property
    def efficiency(self) -> tuple[float, ...]:
        """Ideal seconds over seconds."""
        return tuple(ideal / own for ideal, own in zip(self.ideal, self.seconds, strict=True))

    @property
    def knee(self) -> int:
        """The place of the last count whose efficiency is ``WORTH`` or more."""
        return max(n for n, share in enumerate(self.efficiency) if share >= WORTH)


def scaling(table: pd.DataFrame) -> Scaling | None:
    """Of a sweep over GPUs; None where fewer than two counts run in known time."""
    runs = table[table["verdict"].astype(str) != "out of memory"].dropna(subset=["step_seconds"])
    if len(runs) < 2:
        return None
    return Scaling(
        gpus=tuple(int(count) for count in runs["gpus"]),
        seconds=tuple(float(seconds) for seconds in runs["step_seconds"]),
    )


def words(found: Scaling) -> str:
    """The knee in a sentence, with its definition."""
    knee, last, share = found.knee, len(found.gpus) - 1, found.efficiency
    first = f"{read_count(found.gpus[0], 'GPU')} ({read_seconds(found.seconds[0])} a step)"
    reached = f"{found.gpus[knee]:,} ({read_seconds(found.seconds[knee])})"
    after = (
        "no larger count runs"
        if knee == last
        else f"{share[knee + 1]:.0%} at {found.gpus[knee + 1]:,}"
    )
    return (
        f"**Knee: {read_count(found.gpus[knee], 'GPU')}**, the last count with a parallel "
        f"efficiency of {WORTH:.0%} or more: {share[knee]:.0%} from {first} to {reached}; {after}. "
        f"{FORMULA}, where ₀ is the fewest that run."
    )
