"""Phases of a GRPO step. PPO and Intuitor add to these."""

from __future__ import annotations

from planner.footprint import Instant, PhasePlan, Term
from planner.methods import inference, rollout, update, upkeep
from planner.methods.scene import Scene

KEPT = ("old log-probs", "advantages")


def phases(scene: Scene) -> tuple[PhasePlan, ...]:
    """Load, rollout, scoring, update, sync, checkpoint, validation."""
    kept = update.kept_for_update(scene, (*KEPT, *reference_kept(scene)))
    return (
        upkeep.load(scene),
        rollout.rollout(scene),
        *scoring(scene),
        *update.policy_phases(scene, kept),
        *rollout.weight_sync(scene),
        upkeep.checkpoint(scene),
        rollout.validation(scene),
    )


def scoring(
    scene: Scene, extra: tuple[Instant, ...] = (), kept: tuple[Term, ...] = ()
) -> tuple[PhasePlan, ...]:
    """Old log-probs, reference log-probs and rewards, each where the plan has them."""
    with_entropy = scene.plan.framework == "verl"
    found: list[PhasePlan] = [
        inference.log_probs(
            scene, "old log-probs", scene.policy, with_entropy=with_entropy, extra=extra, kept=kept
        )
    ]
    if scene.reference is not None:
        found.append(
            inference.log_probs(scene, "reference log-probs", scene.reference, with_entropy=False)
        )
    elif scene.plan.kl != "none" and scene.plan.reference == "adapter-disabled":
        found.append(
            inference.log_probs(scene, "reference log-probs", scene.policy, with_entropy=False)
        )
    if scene.reward is not None:
        found.append(inference.scores(scene, "reward", scene.reward))
    return tuple(found)


def reference_kept(scene: Scene) -> tuple[str, ...]:
    """Reference log-probs are kept for the update when a KL term needs them."""
    return ("reference log-probs",) if scene.plan.kl != "none" else ()
