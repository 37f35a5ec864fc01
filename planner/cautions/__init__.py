"""What a person should know besides the numbers: blockers, warnings, notes.

A blocker means that the run cannot start, or trains nothing, whatever the peak is; a warning is
a doubt about the plan or about the estimate; a note says what was understood.
"""

from __future__ import annotations

from planner.cautions.blockers import blockers
from planner.cautions.notes import notes
from planner.cautions.warnings import warnings
from planner.footprint import Phase
from planner.phases.scene import Scene

Cautions = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def cautions_of(scene: Scene, phases: tuple[Phase, ...]) -> Cautions:
    """Blockers, warnings and notes of one plan."""
    of = scene, phases
    return tuple(blockers(*of)), tuple(warnings(*of)), tuple(notes(*of))
