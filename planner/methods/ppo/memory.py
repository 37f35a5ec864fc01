"""Phases of a PPO step."""

from __future__ import annotations

from planner.methods.grpo.memory import KEPT, reference_kept, scoring
from planner.phases import inference, rollout, shared_critic, update, upkeep
from planner.phases.phase import PhasePlan
from planner.phases.scene import Scene
from planner.values.step_phases import OLD_LOG_PROBS, VALUES


def phases(scene: Scene) -> tuple[PhasePlan, ...]:
    """As GRPO's, with values before the update and a critic update before the policy's.

    A critic that shares the policy's body has neither phase: its values come with the old
    log-probs, and it is updated with the policy.
    """
    kept = update.kept_for_update(scene, (*KEPT, VALUES.name, "returns", *reference_kept(scene)))
    together = (OLD_LOG_PROBS.name, VALUES.name)
    if scene.critic is None:
        before = scoring(scene, shared_critic.values(scene), together)
    else:
        scored = update.kept_for_update(scene, (*together, *reference_kept(scene)))
        values = inference.scores(scene, VALUES, scene.critic, scored)
        before = (*scoring(scene), values, update.critic_phase(scene, kept))
    return (
        upkeep.load(scene),
        rollout.rollout(scene),
        *before,
        *update.policy_phases(scene, kept),
        *rollout.weight_sync(scene),
        upkeep.checkpoint(scene),
        rollout.validation(scene),
    )
