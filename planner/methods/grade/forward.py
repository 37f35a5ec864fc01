"""The forward of a GRADE step: generation, reference, KL term and reward, moment by moment."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Instant, Term
from planner.formulas import soft_generation as soft
from planner.formulas import state
from planner.methods.grade import judged, sampled
from planner.methods.grade.fields import own
from planner.methods.grade.held import FP32, Held
from planner.phases.resident import resident
from planner.phases.scene import Scene


def forward_instants(held: Held) -> Iterator[Instant]:
    """From the first step's forward to the reward's."""
    base = (_forward_resident(held.scene), held.rows)
    running = (*base, held.names)
    plan = held.plan
    started = held.steps.finished(0) if own(plan).grade_step_checkpointing else ()
    yield Instant(
        name="last step's last layer's forward",
        terms=held.steps.forward(),
        shared=(
            *running,
            started or held.all_but_last,
            held.tokens(1, "forward", kept_logits=True),
        ),
    )
    if own(plan).grade_kl == "online":
        logits = sampled.rows(
            held.scene, soft.VOCABULARY_ROWS, FP32, 1, label="logits of the token"
        )
        for name, terms in judged.forwards(held.scene):
            yield Instant(
                name=name,
                terms=(*terms, logits),
                shared=(*running, *held.all_steps, held.tokens(1, "forward", kept_logits=True)),
            )
    yield Instant(
        name="last token sampled",
        terms=(*sampled.drawing(held.scene), *judged.held(held.scene)),
        shared=(*running, *held.all_steps, held.tokens(0, "forward", kept_logits=True)),
    )
    if held.batch:
        for name, terms in judged.forwards(held.scene):
            yield Instant(
                name=name,
                terms=(*terms, judged.kept_logits(held.scene, held.count - 1)),
                shared=(*base, *held.all_steps, held.tokens(0, "forward", kept_logits=True)),
            )
        yield Instant(
            name="KL of all steps",
            terms=(*judged.batch_forward(held.scene), *judged.held(held.scene)),
            shared=(*base, *held.all_steps, held.tokens(0, "forward", kept_logits=True)),
        )
    tokens = held.tokens(0, "forward")
    generated = (*base, *held.all_steps, tokens, held.batch_kl, held.reward.inputs())
    yield Instant(name="soft tokens mixed", terms=held.reward.mixing(), shared=generated)
    yield Instant(
        name="reward model's last layer's forward",
        terms=held.reward.forward(),
        shared=(*generated, held.reward.saved()),
    )


def _forward_resident(scene: Scene) -> tuple[Term, ...]:
    """What stands during the forward; an offloaded reference is on the GPU for it."""
    found = resident(scene, "policy update", gradients="accumulated")
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
