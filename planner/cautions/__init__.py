"""What a person should know besides the numbers: assumptions, blockers, warnings, notes.

An assumption stands above the headline, since that holds only where it does. A blocker means that
the run trains nothing, whatever it needs of any limit; a warning is a doubt about the plan or about
the estimate; a note says what was understood.
"""

from __future__ import annotations

from typing import NamedTuple

from planner.cautions.assumptions import assumptions
from planner.cautions.blockers import blockers
from planner.cautions.notes import notes
from planner.cautions.warnings import warnings
from planner.footprint import Phase
from planner.phases.scene import Scene


class Cautions(NamedTuple):
    """What is said of one plan."""

    assumptions: tuple[str, ...]
    blockers: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def cautions_of(scene: Scene, phases: tuple[Phase, ...]) -> Cautions:
    """Assumptions, blockers, warnings and notes of one plan."""
    of = scene, phases
    return Cautions(*(tuple(some(*of)) for some in (assumptions, blockers, warnings, notes)))
