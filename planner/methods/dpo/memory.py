"""Phases of a DPO step."""

from __future__ import annotations

from planner.formulas import logits
from planner.phases import (
    activations,
    collectives,
    in_loss,
    inference,
    stashed,
    training,
    units,
    update,
    upkeep,
)
from planner.phases.phase import PhasePlan
from planner.phases.role import Role
from planner.phases.scene import Scene, remembered
from planner.phases.vocabulary import inference_head, training_head, way
from planner.plan import references
from planner.term import Term
from planner.values.step_phases import REFERENCE_LOG_PROBS


def phases(scene: Scene) -> tuple[PhasePlan, ...]:
    """Load, reference log-probs, forward, backward, optimizer step, checkpoint.

    The plain step scores all pairs of the step under the reference before it updates.
    A framework may score each micro-batch inside its loss, after the policy's forward: what
    that forward saved is alive beside the reference's.
    """
    if scene.framework.scores_reference_in_loss:
        forward, *rest = update.policy_phases(scene)
        return (
            upkeep.load(scene),
            forward,
            *_reference(scene),
            *rest,
            upkeep.checkpoint(scene),
        )
    return (
        upkeep.load(scene),
        *_reference(scene),
        *update.policy_phases(scene, _kept(scene)),
        upkeep.checkpoint(scene),
    )


def _reference(scene: Scene) -> tuple[PhasePlan, ...]:
    """The pass under the reference; none when its log-probs were cached or the loss makes them."""
    role = scene.reference
    if role is None and references.on_policy(scene.plan):
        role = scene.policy.as_reference()
    if role is None or references.in_loss(scene.plan):
        return ()
    if scene.framework.scores_reference_in_loss:
        own = scene.reference or units.apart(scene, role)
        kept = collectives.kept_for_backward(scene, scene.policy) if own else ()
        beside = (
            *training.while_saved(scene, scene.policy, ()),
            stashed.left(scene, scene.policy),
            *_scored_policy(scene),
            kept,
        )
        entropy = way(scene).entropy_of == "forward"
        return (
            inference.log_probs(
                scene,
                REFERENCE_LOG_PROBS,
                role,
                with_entropy=entropy,
                beside=beside,
            ),
        )
    return (inference.log_probs(scene, REFERENCE_LOG_PROBS, role, with_entropy=False),)


@remembered
def _scored_policy(scene: Scene) -> tuple[tuple[Term, ...], ...]:
    """What the policy's final norm and its scoring keep for the backward."""
    role: Role = scene.policy
    return (
        activations.final_norm(scene, role),
        logits.scoring_kept(training_head(scene, role), role=role.name),
    )


@remembered
def _kept(scene: Scene) -> tuple[Term, ...]:
    """One number per response of the step, until the update, or what the loss makes it of."""
    if references.in_loss(scene.plan):
        return (in_loss.cache(scene),) if references.cached(scene.plan) else ()
    return (
        logits.log_prob_kept(
            inference_head(scene, scene.policy),
            name=REFERENCE_LOG_PROBS.name,
            sequences=scene.q.sequences_per_gpu_step,
            tokens=1,
            role="policy",
        ),
    )
