"""How far published runs lay from this model's seconds: factors by phase and regime.

``planner/catalog/time_errors.json`` is written by ``python -m accuracy.timings --intervals``
from published runs beside their plans (docs/accuracy.md): for a phase and a regime the 5th to 95th
percentile of published ÷ predicted, the widest of the projects that published it. A regime that
too few runs fill has the interval of the one around it, up to the widest of all, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple, get_args

from planner.footprint import Factors
from planner.values.step_phases import Published

Kind = Published | Literal["step"]
"""What runs publish seconds of."""
KINDS: tuple[Kind, ...] = (*get_args(Published), "step")


class Regime(NamedTuple):
    """Runs that are judged together; None is either."""

    phase: str | None
    mixture: bool | None = None
    tables: bool | None = None
    lengths: bool | None = None


def factors(kind: Kind, *, mixture: bool, tables: bool, lengths: bool) -> Factors:
    """The interval of a phase in a regime, or of the closest wider one that runs were found of.

    Args:
        kind: what of a run.
        mixture: whether the model has experts.
        tables: whether the card has kernel tables of its own.
        lengths: whether the plan says how long responses are, not only at most.

    Raises:
        ValueError: for what nobody publishes.
    """
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise ValueError(f"phase: {kind!r} has no published seconds; choose one of {known}.")
    asked = Regime(kind, mixture, tables, lengths)
    known_cells = _cells()
    found = next(regime for regime in wider(asked) if regime in known_cells)
    cell = known_cells[found]
    sentence = (
        f"{cell.low:.2f} to {cell.high:.2f} times the estimate: {cell.rows} published "
        f"{_plural(found.phase)}{_of(found)} of {cell.projects} projects (docs/accuracy.md)."
    )
    if found != asked:
        sentence += f" Too few {_plural(kind)}{_of(asked)} are published for a narrower range."
    return Factors(low=cell.low, high=cell.high, rows=cell.rows, words=sentence)


def wider(regime: Regime) -> Iterator[Regime]:
    """The regime and those around it, closest first; the last has every run there is.

    Runs of which only the longest response is known say nothing of a plan whose lengths are: their
    real lengths make most of their error. Other phases and models do.
    """
    known = True if regime.lengths else None
    found = (
        regime,
        regime._replace(tables=None),
        regime._replace(tables=None, lengths=known),
        Regime(regime.phase, lengths=known),
        Regime(None, lengths=known),
        Regime(None),
    )
    return iter(dict.fromkeys(found))


def _of(regime: Regime) -> str:
    """The regime in words, empty for all."""
    parts = []
    if regime.mixture is not None:
        parts.append(" of mixtures" if regime.mixture else " of dense models")
    if regime.tables is not None:
        parts.append(f" on cards with{'' if regime.tables else 'out'} kernel tables of their own")
    if regime.lengths is not None:
        parts.append(f" with{'' if regime.lengths else 'out'} lengths given")
    return "".join(parts)


def _plural(phase: str | None) -> str:
    if phase is None:
        return "phases of any kind"
    return phase if phase.endswith("s") else f"{phase}s"


class Cell(NamedTuple):
    """The interval of one regime."""

    low: float
    high: float
    rows: int
    projects: int

    def has(self, ratio: float) -> bool:
        """Whether published ÷ predicted lies inside."""
        return self.low <= ratio <= self.high


@cache
def _cells() -> dict[Regime, Cell]:
    text = files("planner.catalog").joinpath("time_errors.json").read_text("utf-8")
    return {
        Regime(*(cell[name] for name in Regime._fields)): Cell(
            *(cell[name] for name in Cell._fields)
        )
        for cell in json.loads(text)["regimes"]
    }
