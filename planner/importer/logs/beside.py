"""What a log measured beside a plan's estimate, figure by figure, and the lengths that it tells."""

from __future__ import annotations

from typing import Any, NamedTuple

from planner.footprint import Footprint, Phase
from planner.importer.logs.measured import Figure, LoggedLengths, Measured
from planner.lengths.shape import MOST_TOKENS, Lognormal, lognormal
from planner.lengths.text import to_text
from planner.lengths.typical import logged
from planner.lengths.value import clipped
from planner.plan import Plan

SPREADS = 3.0
"""Most that is tried as the spread of lengths, over their mean."""


class Beside(NamedTuple):
    """A measured figure and the plan's; None where the plan has none."""

    figure: Figure
    estimated: float | None
    phase: str = ""
    """Whose estimate it is: of a peak over all phases, the one that makes it."""

    @property
    def ratio(self) -> float | None:
        """Measured over estimated."""
        return self.figure.value / self.estimated if self.estimated else None


def beside(measured: Measured, footprint: Footprint) -> tuple[Beside, ...]:
    """Every figure of a log with what the estimate has in its place."""
    return tuple(_beside(one, footprint) for one in measured.figures)


def _beside(figure: Figure, footprint: Footprint) -> Beside:
    trainers = [one for one in footprint.phases if one.rank == "trainer"]
    if figure.term:
        for phase in footprint.phases:
            sizes = [int(term.bytes) for term in phase.terms if term.name == figure.term]
            if sizes:
                return Beside(figure, float(sum(sizes)), phase.name)
        return Beside(figure, None)
    if figure.quantity == "seconds":
        return Beside(figure, _seconds(figure, footprint), " + ".join(figure.phases))
    among = [one for one in trainers if not figure.phases or one.name in figure.phases]
    if not among:
        return Beside(figure, None)
    worst = max(among, key=lambda one: getattr(one, figure.quantity) or 0)
    size = getattr(worst, figure.quantity)
    return Beside(figure, None if size is None else float(size), worst.name)


def _seconds(figure: Figure, footprint: Footprint) -> float | None:
    """Of a step, or of the phases that the figure is of, all together."""
    if not figure.phases:
        return footprint.step_seconds
    seconds = [one.seconds for one in timed(figure, footprint)]
    known = [one for one in seconds if one is not None]
    return sum(known) if known and len(known) == len(seconds) else None


def timed(figure: Figure, footprint: Footprint) -> list[Phase]:
    """The plan's phases that a figure covers, a phase once."""
    return [*{one.name: one for one in footprint.phases if one.name in figure.phases}.values()]


def length_fields(found: LoggedLengths, plan: Plan) -> dict[str, Any]:
    """The plan's fields that the lengths of a log decide: ``length_distribution``, mean prompts.

    Where the cap cut some, the lognormal that it cuts so; else the one whose longest of a step is
    as long as logged. A mean alone says nothing of a spread, and gives no distribution.

    Raises:
        ValueError: naming ``lengths``, where no distribution has these figures under the cap.
    """
    fields: dict[str, Any] = {}
    if found.prompt_mean is not None:
        fields["mean_prompt_tokens"] = min(max(round(found.prompt_mean), 1), plan.prompt_tokens)
    cap = plan.response_tokens
    try:
        if found.cut:
            fields["length_distribution"] = to_text(logged(found.mean, found.cut, cap))
        elif found.longest is not None:
            responses = plan.prompts_per_step * plan.responses_per_prompt
            fields["length_distribution"] = to_text(_longest(found, responses, cap))
    except ValueError as error:
        raise ValueError(f"lengths: the log {error}.") from None
    return fields


def _longest(found: LoggedLengths, responses: int, cap: int) -> Lognormal:
    """The lognormal of this mean whose longest of so many is as logged."""
    assert found.longest is not None
    if found.longest > cap:
        raise ValueError(f"has a response of {found.longest:,.0f} tokens, above the plan's {cap:,}")
    average = max(round(found.mean), 1)
    low, high = 1, max(round(SPREADS * average), 2)
    while high - low > 1:
        middle = (low + high) // 2
        shape = lognormal(average, middle)
        longest = clipped(shape.bins, MOST_TOKENS, cap).longest_of(responses)
        low, high = (middle, high) if longest < found.longest else (low, middle)
    return lognormal(average, low)

