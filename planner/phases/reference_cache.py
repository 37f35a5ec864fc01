"""A cached reference: its pass over the responses, what it writes, and what a step reads of it.

Given responses (pairs) are scored once, before the run, and wait on a disk. Sampled ones are new in
each step: the reference scores them before the update, on GPUs of its own, which this plan's wait
for; nothing can be cached beforehand.
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.numeric import Num
from planner.phases.phase import PhasePlan, Work, scoring, waiting
from planner.phases.scene import Scene, remembered
from planner.phases.vocabulary import scored_in_step
from planner.plan import references
from planner.plan.methods import method_of
from planner.term import Term
from planner.values.step_phases import StepPhase

SIZE = Formula(
    "cached reference outside the GPU",
    "responses * numbers * number_bytes",
    category="buffers",
    source="planner/steps (read): log-probs are kept in fp32, hidden states in the compute dtype; "
    "preference losses keep one sum a response, as TRL's precompute_ref_log_probs does",
    why="The reference's output for every response: a log-prob or a hidden state per token.",
    ignores="file headers, and compression",
)
WAITING = "other GPUs score the responses"


def size(scene: Scene, responses: Num) -> Term:
    """What the reference leaves of so many responses, in bytes."""
    plan = scene.plan
    width, number_bytes = 1, 4
    if references.cached(plan):
        width, number_bytes = scene.policy.arch.hidden, scene.q.compute_bytes
    elif method_of(plan).held_to_reference:
        return SIZE("reference", responses=responses, numbers=1, number_bytes=number_bytes)
    numbers = scene.q.response_tokens * width
    return SIZE("reference", responses=responses, numbers=numbers, number_bytes=number_bytes)


def work(scene: Scene) -> Work:
    """The pass over one step's responses; hidden states are taken before the head."""
    scored = 0 if references.cached(scene.plan) else scored_in_step(scene, gradient=False)
    return scoring(scene, scene.policy.as_reference(), scored_tokens=scored, elsewhere=True)


def reading(scene: Scene) -> tuple[Work, ...]:
    """What each GPU reads of it in one step, before it updates; nothing where none is on a disk."""
    if not references.stored(scene.plan) or references.elsewhere(scene.plan):
        return ()
    read = size(scene, scene.q.sequences_per_gpu_step).bytes
    return (Work(role=scene.policy.as_reference(), run="read", host_bytes=read),)


@remembered
def waited_for(scene: Scene, kind: StepPhase, kept: tuple[Term, ...]) -> PhasePlan:
    """The phase in which other GPUs score this step's responses: here nothing is computed."""
    return waiting(kind, "reference", WAITING, kept=kept, work=(work(scene),))
