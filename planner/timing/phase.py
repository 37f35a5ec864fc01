"""Seconds of a phase in one step, as terms that add up to them.

Compute, collectives and host copies of one pass overlap as far as FSDP overlaps them:
the longer one counts. A phase whose time nobody can derive from the plan (loading, and what nobody
said a run has: checkpoints, validation) has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.formulas.launches import OUTLASTING
from planner.numeric import Num
from planner.phases.phase import Decoding, PhasePlan, Work
from planner.phases.scene import Scene
from planner.term import TimeTerm
from planner.timing import engine, trainer, updates
from planner.timing.traffic import exposed, files_read, files_written
from planner.timing.uneven import uneven
from planner.timing.weight_sync import weight_sync

Terms = tuple[TimeTerm, ...]


def phase_terms(scene: Scene, phase: PhasePlan) -> Terms | None:
    """What a phase's time is made of; its seconds are their sum. None when that is unknown."""
    return work_terms(scene, phase.work, phase.times)


def work_terms(scene: Scene, work: Sequence[Work], stated: Terms = ()) -> Terms | None:
    """The same of a phase's rows of the table of work, behind the terms that its method states."""
    if not (work or stated):
        return None
    passes: list[list[Work]] = []
    for row in work:
        # A row beside another shares its pass.
        together = passes.pop() if row.beside else []
        passes.append([*together, row])
    found = stated
    for rows in passes:
        terms = _together(scene, rows)
        if terms is None:
            return None
        found += terms
    return found


def phase_seconds(scene: Scene, phase: PhasePlan) -> Num | None:
    """Seconds a phase takes in one step; None when that is unknown."""
    terms = phase_terms(scene, phase)
    return None if terms is None else sum(term.seconds for term in terms)


def _together(scene: Scene, rows: list[Work]) -> Terms | None:
    """Compute of one pass, and what of its traffic it does not hide."""
    computed: Terms = ()
    for row in rows:
        terms = _compute(scene, row)
        if terms is None:
            return None
        computed += (*terms, *uneven(scene, row, terms))
    idle = sum(term.seconds for term in computed if term.name in OUTLASTING)
    waited = exposed(scene, rows, sum(term.seconds for term in computed), idle)
    return None if waited is None else (*computed, *waited)


def _compute(scene: Scene, row: Work) -> Terms | None:
    if isinstance(row, Decoding):
        return engine.decoding(scene, row)
    if row.run == "send":
        return weight_sync(scene, row.rounds)
    if row.run == "read":
        return (files_read(scene, row),)
    if row.run == "write":
        return (files_written(scene, row),)
    return updates.optimizer(scene, row) if row.run == "optimizer" else trainer.computed(scene, row)
