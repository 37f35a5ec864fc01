"""The update of a trained role as phases, the same for every method."""

from __future__ import annotations

from planner.formulas import logits
from planner.phases import backward, in_loss, phase, reference_cache, shared_critic, training
from planner.phases.phase import PhasePlan, Work
from planner.phases.positions import IN_PIECES
from planner.phases.scene import Scene, once, remembered
from planner.phases.vocabulary import inference_head, path, scored_in_step
from planner.plan.trainers import trainer_for
from planner.term import Term
from planner.values.step_phases import (
    CRITIC_UPDATE,
    OPTIMIZER_STEP,
    POLICY_BACKWARD,
    POLICY_FORWARD,
)


def policy_phases(scene: Scene, kept: tuple[Term, ...] = ()) -> tuple[PhasePlan, ...]:
    """Policy forward, policy backward and optimizer step."""
    return (
        _forward_phase(scene, kept),
        _backward_phase(scene, kept),
        *(() if scene.setup.steps_in_backward else (optimizer_phase(scene, kept),)),
    )


@remembered
def _forward_phase(scene: Scene, kept: tuple[Term, ...]) -> PhasePlan:
    role = scene.policy
    return PhasePlan(
        kind=POLICY_FORWARD,
        role=role.name,
        instants=(
            *in_loss.instants(scene, kept),
            *training.forward_instants(scene, role, (*kept, *in_loss.made(scene))),
            *shared_critic.forward_instants(scene, kept),
        ),
        work=_forward_work(scene),
    )


@remembered
def _forward_work(scene: Scene) -> tuple[Work, ...]:
    scored = scored_in_step(scene, gradient=True)
    forward = phase.training(scene, scene.policy, "forward", scored_tokens=scored)
    return (forward, *in_loss.work(scene), *reference_cache.reading(scene))


@remembered
def _backward_phase(scene: Scene, kept: tuple[Term, ...]) -> PhasePlan:
    role = scene.policy
    return PhasePlan(
        kind=POLICY_BACKWARD,
        role=role.name,
        instants=backward.backward_instants(scene, role, kept),
        work=_backward_work(scene),
    )


@remembered
def _backward_work(scene: Scene) -> tuple[Work, ...]:
    role, scored = scene.policy, scored_in_step(scene, gradient=True)
    again = int(path(scene) in IN_PIECES)
    back = phase.training(scene, role, "backward", scored_tokens=scored, scored_again=again)
    return (back, *((phase.updating(scene, role),) if scene.setup.steps_in_backward else ()))


@remembered
def optimizer_phase(scene: Scene, kept: tuple[Term, ...] = ()) -> PhasePlan:
    """The policy's optimizer step."""
    return PhasePlan(
        kind=OPTIMIZER_STEP,
        role=scene.policy.name,
        instants=training.optimizer_instants(scene, scene.policy, kept),
        work=_optimizer_work(scene),
    )


@remembered
def _optimizer_work(scene: Scene) -> tuple[Work, ...]:
    return (phase.updating(scene, scene.policy),)


@remembered
def critic_phase(scene: Scene, kept: tuple[Term, ...] = ()) -> PhasePlan:
    """The critic's forward, backward and optimizer step as one phase."""
    role = scene.critic
    if role is None:
        raise ValueError("critic: this plan has none; set critic to separate.")
    return PhasePlan(
        kind=CRITIC_UPDATE,
        role=role.name,
        instants=(
            *training.forward_instants(scene, role, kept),
            *backward.backward_instants(scene, role, kept),
            *(
                ()
                if scene.setup.steps_in_backward
                else training.optimizer_instants(scene, role, kept)
            ),
        ),
        work=(
            phase.training(scene, role, "forward", scored_tokens=0),
            phase.training(scene, role, "backward", scored_tokens=0),
            phase.updating(scene, role),
        ),
    )


@once
def kept_for_update(
    scene: Scene, names: tuple[str, ...], *, scoring: bool = False
) -> tuple[Term, ...]:
    """Per-token numbers that earlier phases leave on the GPU until the update.

    Where a step's batch waits in host RAM, a micro-batch's are too few to be counted. While
    ``scoring`` runs they are per token, whatever a trainer makes of them for its update.
    """
    if "token" in scene.framework.host_bytes:
        return ()
    q, by_sequence = scene.q, trainer_for(scene.plan).numbers_by_sequence and not scoring
    return tuple(
        in_loss.cache(scene)
        if name == in_loss.CACHE
        else logits.log_prob_kept(
            inference_head(scene, scene.policy),
            name=name,
            sequences=q.sequences_per_gpu_step,
            tokens=1 if by_sequence else q.response_tokens,
            role="policy",
        )
        for name in names
    )
