"""Phases of an Intuitor step."""

from __future__ import annotations

from planner.footprint import Instant, PhasePlan
from planner.formulas import logits
from planner.methods import rollout, training, update, upkeep
from planner.methods.grpo.memory import KEPT, reference_kept, scoring
from planner.methods.scene import Scene
from planner.methods.vocabulary import inference_head, training_head


def phases(scene: Scene) -> tuple[PhasePlan, ...]:
    """As GRPO's; self-certainty where it happens, or in the loss when the plan says so."""
    kept = update.kept_for_update(scene, (*KEPT, "self-certainty", *reference_kept(scene)))
    premise = scene.plan.self_certainty_gradient
    policy = update.policy_phases(scene, kept)
    return (
        upkeep.load(scene),
        rollout.rollout(scene),
        *scoring(scene, () if premise else (_certainty(scene),)),
        *(_with_gradient(scene, policy) if premise else policy),
        *rollout.weight_sync(scene),
        upkeep.checkpoint(scene),
        rollout.validation(scene),
    )


def _certainty(scene: Scene) -> Instant:
    """Self-certainty of one micro-batch of the old log-probs phase."""
    return Instant(
        name="self-certainty",
        terms=logits.self_certainty_forward(
            inference_head(scene, scene.policy),
            how=scene.plan.self_certainty,
            with_gradient=False,
            role="policy",
        ),
    )


def _with_gradient(scene: Scene, policy: tuple[PhasePlan, ...]) -> tuple[PhasePlan, ...]:
    """The document's premise: self-certainty inside the loss, kept for the backward."""
    head, how = training_head(scene, scene.policy), scene.plan.self_certainty
    forward, backward, step = policy
    return (
        _more(
            forward,
            training.at_head_instant(
                scene,
                "self-certainty with gradient",
                logits.self_certainty_forward(head, how=how, with_gradient=True, role="policy"),
            ),
        ),
        _more(
            backward,
            training.at_head_instant(
                scene,
                "self-certainty's backward",
                logits.self_certainty_backward(head, how=how, role="policy"),
            ),
        ),
        step,
    )


def _more(phase: PhasePlan, instant: Instant) -> PhasePlan:
    return PhasePlan(
        name=phase.name, role=phase.role, instants=(*phase.instants, instant), rank=phase.rank
    )
