"""Seconds of a phase in one step, as terms that add up to them.

Compute, collectives and host copies of one pass overlap as far as FSDP overlaps them:
the longer one counts. A phase whose time nobody can derive from the plan (loading, and what nobody
said a run has: checkpoints, validation) has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.formulas.communication import host_copy_seconds
from planner.formulas.launches import OUTLASTING
from planner.numeric import Num
from planner.phases.phase import Decoding, PhasePlan, Work
from planner.phases.reference_cache import reading, size, work
from planner.phases.scene import Scene
from planner.plan import references
from planner.plan.references import ReferenceCache
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


def pass_seconds(scene: Scene) -> tuple[Num, Num] | None:
    """Seconds of the reference's passes before the run, and in each step on GPUs of its own.

    Zeros where the plan's reference has none; None where a pass's time is not known.
    """
    plan = scene.plan
    if not references.stored(plan):
        return 0.0, 0.0
    terms = work_terms(scene, (work(scene),))
    if terms is None:
        return None
    seconds = sum(term.seconds for term in terms)
    return (0.0, seconds) if references.elsewhere(plan) else (plan.steps * seconds, 0.0)


def reference_cache(scene: Scene) -> ReferenceCache | None:
    """What the plan's cached reference costs; None where it has none."""
    plan = scene.plan
    if not references.stored(plan):
        return None
    each_step, q = references.elsewhere(plan), scene.q
    steps = 1 if each_step else plan.steps
    passes = pass_seconds(scene)
    here = int(size(scene, q.sequences_per_gpu_step).bytes)
    read = work_terms(scene, reading(scene))
    responses = steps * int(q.sequences_per_step)
    return ReferenceCache(
        each_step=each_step,
        responses=responses,
        seconds=None if passes is None else float(sum(passes)),
        weight_bytes=int(scene.policy.parameters * q.compute_bytes),
        disk_bytes=0 if each_step else int(size(scene, responses).bytes),
        step_bytes=int(size(scene, q.sequences_per_step).bytes),
        copy_seconds=host_copy_seconds(scene.facts.gpu, size_bytes=here),
        read_seconds=sum(term.seconds for term in read) if read else None,
    )
