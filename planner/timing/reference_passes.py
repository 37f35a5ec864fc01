"""Seconds of a cached reference's passes, and what it costs beside the step's memory."""

from __future__ import annotations

from planner.formulas.communication import host_copy_seconds
from planner.numeric import Num
from planner.phases.reference_cache import reading, size, work
from planner.phases.scene import Scene
from planner.plan import references
from planner.plan.references import ReferenceCache
from planner.timing.phase import work_terms


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
