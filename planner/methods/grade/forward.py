"""The forward of a GRADE step: generation, reference, KL term and reward, moment by moment."""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas import soft_generation as soft
from planner.formulas import state
from planner.methods.grade import reference_run, soft_tokens
from planner.methods.grade.bundles import Held
from planner.methods.grade.fields import METRIC, ONLINE
from planner.methods.grade.soft_tokens import FP32
from planner.phases.baseline import resident
from planner.phases.scene import Scene
from planner.term import Instant, Standing, Term
from planner.values.step_phases import POLICY_UPDATE


def forward_instants(held: Held) -> Iterator[Instant]:
    """From the first step's forward to the reward's."""
    base = (_forward_resident(held.scene), held.rows)
    running = (*base, held.names)
    checkpointed = held.own.grade_step_checkpointing
    started = (held.steps.finished(0) if checkpointed else ()) or held.steps.finished(1)
    before = held.tokens(1, "forward", kept_logits=True)
    beside_step = tuple(reference_run.held(held.soft, 1)) if held.own.grade_kl in ONLINE else ()
    yield Instant(
        name="last step's last layer's forward",
        terms=(*held.steps.forward(), *beside_step),
        shared=(*running, started, before),
    )
    if held.own.grade_kl in ONLINE:
        logits = held.soft.rows(soft.VOCABULARY_ROWS, FP32, 1, label="logits of the token")
        for name, terms in reference_run.forwards(held.soft):
            beside = (*running, *held.all_steps, before)
            yield Instant(name=name, terms=(*terms, logits), shared=beside)
        if held.own.grade_kl == METRIC:
            made = (logits, *reference_run.divergence(held.soft, 1), *reference_run.held(held.soft))
            yield Instant(name="KL of the last token", terms=made, shared=beside)
    generated = (*base, *held.all_steps, held.tokens(0, "forward", kept_logits=True))
    cache = tuple(reference_run.held(held.soft))
    yield Instant(
        name="last token sampled",
        terms=(*soft_tokens.drawing(held.soft), *cache),
        shared=(*generated, held.names),
    )
    if held.batch:
        for name, terms in reference_run.forwards(held.soft):
            kept = reference_run.kept_logits(held.soft, held.count - 1)
            yield Instant(name=name, terms=(*terms, kept), shared=generated)
        stacked = (*reference_run.batch_forward(held.soft), *cache)
        yield Instant(name="KL of all steps", terms=stacked, shared=generated)
    reward = held.reward
    generated = (*base, *held.all_steps, held.tokens(0, "forward"), held.batch_kl, reward.inputs())
    yield Instant(name="soft tokens mixed", terms=reward.mixing(), shared=generated)
    yield Instant(
        name="reward model's last layer's forward",
        terms=reward.forward(),
        shared=(*generated, reward.saved()),
    )


def _forward_resident(scene: Scene) -> tuple[Term, ...]:
    """What stands during the forward; an offloaded reference is on the GPU for it."""
    found = resident(scene, Standing(POLICY_UPDATE, "accumulated"))
    reference = scene.reference
    if reference is None or scene.plan.reference != "offloaded":
        return found
    here = state.WEIGHTS(
        reference.name,
        layout=reference.layout,
        parameters=reference.parameters,
        shards=1,
        value_bytes=reference.weight_bytes,
    )
    return (*(term for term in found if not (term.role == reference.name and term.host)), here)
