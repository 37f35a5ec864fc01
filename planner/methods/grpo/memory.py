"""Phases of a GRPO step. PPO and Intuitor add to these."""

from __future__ import annotations

from planner.phases import (
    collectives,
    in_loss,
    inference,
    reference_cache,
    reward_engine,
    rollout,
    sampled,
    update,
    upkeep,
)
from planner.phases.phase import PhasePlan
from planner.phases.scene import Scene
from planner.phases.vocabulary import way
from planner.plan import Plan, references
from planner.plan.trainers import trainer_of
from planner.term import Instant
from planner.values.step_phases import OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD

OLD = OLD_LOG_PROBS.name
KEPT = (OLD, "advantages")


def phases(scene: Scene) -> tuple[PhasePlan, ...]:
    """Load, rollout, scoring, update, sync, checkpoint, validation."""
    names = KEPT[1:] if own_old_log_probs(scene.plan) else KEPT
    kept = update.kept_for_update(scene, (*names, *reference_kept(scene)))
    kept = (*kept, *sampled.waiting(scene))
    return (
        upkeep.load(scene),
        rollout.rollout(scene),
        *scoring(scene),
        *update.policy_phases(scene, kept),
        *rollout.weight_sync(scene),
        upkeep.checkpoint(scene),
        rollout.validation(scene),
    )


def own_old_log_probs(plan: Plan) -> bool:
    """Whether the plan's framework makes no old log-probs: its loss takes its own."""
    return trainer_of(plan.framework, plan.method).own_old_log_probs(plan)


def scoring(
    scene: Scene,
    extra: tuple[Instant, ...] = (),
    names: tuple[str, ...] = (OLD,),
    *,
    extra_in_pieces: bool = False,
    with_certainty: bool = False,
) -> tuple[PhasePlan, ...]:
    """Old log-probs, reference log-probs and rewards, each where the plan has them.

    ``names`` are the numbers per token that the first of them writes; ``with_certainty`` says that
    one of them comes of the fused head, beside log-probs.
    """
    with_entropy = way(scene).entropy_of == "score"
    waiting = (*names, "advantages", *reference_kept(scene))
    found: list[PhasePlan] = []
    if own_old_log_probs(scene.plan):
        names = tuple(name for name in names if name != OLD)
    else:
        found.append(
            inference.log_probs(
                scene,
                OLD_LOG_PROBS,
                scene.policy,
                with_entropy=with_entropy,
                with_certainty=with_certainty,
                extra=extra,
                extra_in_pieces=extra_in_pieces,
                kept=(
                    *update.kept_for_update(scene, names, scoring=True),
                    *sampled.while_scored(scene, waiting, 1),
                ),
            )
        )
    kept = update.kept_for_update(scene, names, scoring=True)
    if references.elsewhere(scene.plan):
        found.append(reference_cache.waited_for(scene, REFERENCE_LOG_PROBS, kept))
    kept = update.kept_for_update(scene, (*names, *reference_kept(scene)), scoring=True)
    kept = (*kept, *sampled.while_scored(scene, waiting, 2))
    role = scene.reference
    if references.on_policy(scene.plan):
        role = scene.policy.as_reference()
    if role is scene.reference and not own_old_log_probs(scene.plan):
        kept = (*kept, *collectives.left_for_reference(scene, scene.policy))
    if role is not None and not references.in_loss(scene.plan):
        scored = inference.log_probs(
            scene, REFERENCE_LOG_PROBS, role, with_entropy=False, kept=kept
        )
        found.append(scored)
    if scene.reward is not None:
        served = scene.framework.reward_engine
        scores = reward_engine.scored if served else inference.scores
        found.append(scores(scene, REWARD, scene.reward, kept))
    return tuple(found)


def reference_kept(scene: Scene) -> tuple[str, ...]:
    """Reference log-probs are kept for the update when a KL term needs them.

    A loss that makes them itself is left the hidden states it makes them of, or nothing.
    """
    if references.in_loss(scene.plan):
        return (in_loss.CACHE,) if references.cached(scene.plan) else ()
    return (REFERENCE_LOG_PROBS.name,) if scene.plan.kl != "none" else ()
