"""Phases of an Intuitor step."""

from __future__ import annotations

from planner.formulas import logits
from planner.methods.grpo.memory import KEPT, OLD, reference_kept, scoring
from planner.methods.intuitor.fields import WITH_HEAD, own
from planner.phases import activations, positions, rollout, training, update, upkeep
from planner.phases.backward import ARRIVE_AGAIN
from planner.phases.phase import PhasePlan, at_head
from planner.phases.scene import Scene, remembered
from planner.phases.vocabulary import certainty_head, training_head
from planner.term import Instant

IN_SLICES = "chunked-vocabulary"
"""The form that multiplies all scored positions, side by side, by slices of the head."""


def phases(scene: Scene) -> tuple[PhasePlan, ...]:
    """As GRPO's; self-certainty where it happens, or in the loss when the plan says so."""
    kept = update.kept_for_update(scene, (*KEPT, "self-certainty", *reference_kept(scene)))
    premise, how = own(scene.plan).self_certainty_gradient, own(scene.plan).self_certainty
    with_head = how == WITH_HEAD
    policy = update.policy_phases(scene, kept)
    old, *rest = scoring(
        scene,
        () if with_head else _certainty(scene),
        (OLD, "self-certainty"),
        extra_in_pieces=how == IN_SLICES,
        with_certainty=with_head,
    )
    return (
        upkeep.load(scene),
        rollout.rollout(scene),
        old if with_head else _head_again(scene, old),
        *rest,
        *(_with_gradient(scene, policy) if premise else policy),
        *rollout.weight_sync(scene),
        upkeep.checkpoint(scene),
        rollout.validation(scene),
    )


@remembered
def _certainty(scene: Scene) -> tuple[Instant, ...]:
    """Self-certainty of one micro-batch of the old log-probs phase."""
    head, how = certainty_head(scene, gradient=False), own(scene.plan).self_certainty
    found = logits.certainty_instants(head, how=how, role="policy", with_gradient=False)
    return tuple(instant._replace(name="self-certainty") for instant in found)


@remembered
def _head_again(scene: Scene, phase: PhasePlan, *, scored_again: int = 0) -> PhasePlan:
    """Self-certainty makes logits of its own, but for the fused head's: the product once more."""
    rows = (*phase.work, at_head(phase.work[0], scored_again=scored_again))
    return phase._replace(work=rows)


@remembered
def _with_gradient(scene: Scene, policy: tuple[PhasePlan, ...]) -> tuple[PhasePlan, ...]:
    """The document's premise: self-certainty inside the loss, kept for the backward.

    It is computed last, so it goes backward first: beside what scoring has kept. Scoring then
    goes backward beside the gradients that self-certainty made.
    """
    head, how = training_head(scene, scene.policy), own(scene.plan).self_certainty
    # An optimizer that steps in the backward has no phase of its own.
    forward, backward, *step = policy
    made = certainty_head(scene, gradient=True)
    copies = activations.frozen_head_copy(scene, scene.policy)
    certain, back = (
        logits.certainty_instants(
            made, how=how, role="policy", with_gradient=True, backward=backward
        )
        for backward in (False, True)
    )
    again = positions.scored_again(scene, scene.policy) if how == IN_SLICES else ()
    kept = (*logits.scoring_kept(head, role="policy"), *again)
    losses = logits.backward_instants(head, objective="policy", role="policy")
    gradients = (*logits.head_gradients(made, role="policy"), *again)
    # Slices of the vocabulary write into one gradient of the head, to which autograd adds in place.
    apart = scene.policy.root_trainable and how != IN_SLICES
    added = (_head_gradients_added(scene, head),) if apart else ()
    arrives = tuple(
        training.with_terms(instant, logits.certainty_kept(made, how=how, role="policy"))
        if instant.name == ARRIVE_AGAIN
        else instant
        for instant in backward.instants
    )
    return (
        _more(
            _head_again(scene, forward),
            *(
                training.at_head_instant(
                    scene, "self-certainty with gradient", (*one.terms, *copies, *kept)
                )
                for one in certain
            ),
        ),
        _more(
            _head_again(
                scene, backward._replace(instants=arrives), scored_again=int(how == IN_SLICES)
            ),
            *(
                training.at_head_instant(
                    scene, "self-certainty's backward", (*one.terms, *copies, *kept), backward=True
                )
                for one in back
            ),
            *(
                training.at_head_instant(
                    scene,
                    f"{loss.name} beside self-certainty's gradients",
                    (*loss.everything, *gradients),
                    backward=True,
                )
                for loss in losses
            ),
            *added,
        ),
        *step,
    )


def _head_gradients_added(scene: Scene, head: logits.Head) -> Instant:
    """Both uses of the head have given its weight a gradient; autograd adds them out of place."""
    gradient = logits.head_gradients(head, role="policy")
    (weight,) = (term for term in gradient if term.category == "gradients")
    total = weight._replace(name="sum of the head's gradients")
    return training.at_head_instant(
        scene, "head's gradients added", (*gradient, *gradient, total), backward=True
    )


def _more(phase: PhasePlan, *instants: Instant) -> PhasePlan:
    return phase._replace(instants=(*phase.instants, *instants))
