"""Phases of a PPO step."""

from __future__ import annotations

from planner.footprint import PhasePlan
from planner.methods import inference, rollout, update, upkeep
from planner.methods.grpo.memory import KEPT, reference_kept, scoring
from planner.methods.scene import Scene


def phases(scene: Scene) -> tuple[PhasePlan, ...]:
    """As GRPO's, with values before the update and a critic update before the policy's."""
    if scene.critic is None:
        raise ValueError("critic: PPO needs one; set critic to separate.")
    kept = update.kept_for_update(scene, (*KEPT, "values", "returns", *reference_kept(scene)))
    scored = update.kept_for_update(scene, ("old log-probs", "values", *reference_kept(scene)))
    return (
        upkeep.load(scene),
        rollout.rollout(scene),
        *scoring(scene),
        inference.scores(scene, "values", scene.critic, scored),
        update.critic_phase(scene, kept),
        *update.policy_phases(scene, kept),
        *rollout.weight_sync(scene),
        upkeep.checkpoint(scene),
        rollout.validation(scene),
    )
