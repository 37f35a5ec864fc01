"""What forwards of accelerate's units find whole, because another forward has left it so.

A unit that is not resharded after its forward waits for a backward, and a forward without gradient
has none: final norm and head always, layers and embedding where ``reshard_after_forward`` is false.
Old log-probs leave them to the reference's pass through the same model and to an update's first
micro-batch; a policy's forward leaves them to a reference that its own loss scores.
"""

from __future__ import annotations

from planner.formulas import sharding
from planner.numeric import Num
from planner.phases import gathered, units
from planner.phases.role import Role
from planner.phases.scene import Scene, once
from planner.plan import references
from planner.plan.methods import method_of
from planner.plan.trainers import trainer_for
from planner.term import Term
from planner.values.step_phases import OLD_LOG_PROBS


def answers(role: Role) -> bool:
    """Whether the policy's own model answers as the reference."""
    return role.disabled or role.answers_frozen


def old_log_probs(scene: Scene) -> bool:
    """Whether a phase makes them."""
    plan = scene.plan
    own = trainer_for(plan).own_old_log_probs(plan)
    return OLD_LOG_PROBS in method_of(plan).phases and not own


@once
def scored_before(scene: Scene) -> bool:
    """Whether the policy scores without gradient before its update."""
    plan = scene.plan
    if old_log_probs(scene):
        return True
    return references.on_policy(plan) and not (in_update(scene) or references.in_loss(plan))


def in_update(scene: Scene) -> bool:
    """Whether the loss scores the reference, in a forward of its own between policy's passes."""
    return trainer_for(scene.plan).scores_reference_in_loss


@once
def by_training(scene: Scene, role: Role) -> bool:
    """Whether an update's first forward finds units whole."""
    trains = role.name == "policy" and role.trained and not answers(role)
    return units.head_stays(scene) and trains and scored_before(scene)


@once
def by_reference(scene: Scene, role: Role) -> bool:
    """Whether the reference's forwards do: of the policy's model, after one of its own."""
    if not (units.head_stays(scene) and answers(role)):
        return False
    return in_update(scene) or old_log_probs(scene)


def first_alone(scene: Scene) -> Num:
    """1 where an update's first micro-batch is the only one of the step, else 0."""
    return 1 - gathered.after_first(scene)


@once
def head(scene: Scene, role: Role) -> tuple[Term, ...]:
    """A head's unit beside the layers of that forward."""
    if not (by_training(scene, role) and units.apart(scene, role)) or role.adapters:
        return ()
    return (
        sharding.GATHERED_ROOT(
            role.name,
            label="gathered head weights, left by another forward",
            root_parameters=units.of_root(scene, role) * first_alone(scene),
            value_bytes=scene.q.compute_bytes,
        ),
    )


@once
def head_again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The same unit as the end of the backward fetches it ahead, for a forward that has none.

    torch 2.13 ``_fsdp_param_group.py``, ``_backward_prefetch``: what ran before in the order of
    forwards, those without gradient among them.
    """
    if not head(scene, role):
        return ()
    return (
        sharding.ROOT_GATHER_BUFFER(
            role.name,
            root_parameters=units.of_root(scene, role) * first_alone(scene),
            value_bytes=gathered.travelling(scene),
        ),
    )


@once
def layer_buffer(scene: Scene, role: Role) -> Term:
    """What the last layer has arrived in, while that head computes."""
    return sharding.GATHER_BUFFER(
        role.name,
        layer_parameters=units.of_layer(scene, role),
        value_bytes=gathered.travelling(scene) * first_alone(scene),
    )
