"""What FSDP gathers and reduces as one: layers, a root, embeddings and heads that are units apart.

accelerate makes an embedding one unit, and final norm and head another; verl makes an untied
embedding and a head units of their own, and leaves the norm to the root.
"""

from __future__ import annotations

from planner.numeric import Num, round_up
from planner.phases.role import Role
from planner.phases.scene import Scene, once
from planner.plan.loss import path_of
from planner.values.sharding import sharding_of


def apart(scene: Scene, role: Role) -> bool:
    """Whether the embedding is a unit, and final norm and head are another.

    The embedding is gathered for its lookup and, though its gradient needs no weight, in the
    backward; the head from the end of the forward to its own backward. Tied ones are one unit.
    """
    if not head_stays(scene):
        return False
    tied = role.arch.tied and not role.value_head
    return not (tied or role.arch.learned_positions)


def head_stays(scene: Scene) -> bool:
    """Whether what the head needs is not resharded between forward and backward."""
    return ("norm", "head") in scene.framework.units and sharding_of(scene.plan).fsdp == 2


def head_by_loss(scene: Scene, role: Role) -> bool:
    """Whether the loss puts the head together: its unit would gather when it is called.

    In an untied model that peft has wrapped accelerate 1.15 finds no final norm
    (``_find_final_norm`` looks for it where the model itself has it), and the unit is the head
    alone, which nobody calls. TRL's fused head reads its weight (``full_tensor``), as it is stored
    and without a buffer, and nothing but the loss's own backward holds that. Where the model makes
    logits it calls its head.
    """
    reads = path_of(scene.plan) not in ("full", "response")
    return apart(scene, role) and role.adapters > 0 and reads


def trained_at_end(scene: Scene, role: Role) -> int:
    """Trained elements whose gradients are reduced when the whole backward has ended."""
    return role.root_trainable - trained_of_head(scene, role)


def trained_of_head(scene: Scene, role: Role) -> int:
    """Trained elements of a head's unit of its own, reduced once it has gone backward."""
    if not (apart(scene, role) and role.root_trainable):
        return 0
    return role.root_trainable - role.arch.vocab * role.arch.hidden


BOTH = 2
"""Tables of a model with a head over the vocabulary."""


def tables_apart(scene: Scene, role: Role) -> int:
    """How many tables over the vocabulary are units of their own: embedding, and head."""
    wraps = ("head",) in scene.framework.units and sharding_of(scene.plan).fsdp == 2
    return 0 if not wraps or role.arch.tied else BOTH - role.value_head


def of_table(scene: Scene, role: Role) -> Num:
    """Elements of an embedding or a head as they travel, padding included."""
    return round_up(role.arch.vocab, scene.q.shards) * role.arch.hidden


def head_apart(scene: Scene, role: Role) -> bool:
    """Whether a head over the vocabulary trains as a unit of its own."""
    return tables_apart(scene, role) == BOTH and role.root_trainable > 0


def embedding_apart(scene: Scene, role: Role) -> bool:
    """Whether the embedding does."""
    return tables_apart(scene, role) > 0 and role.root_trainable > 0


def of_layer(scene: Scene, role: Role) -> Num:
    """Elements of one layer as they travel, padding included."""
    adapters = role.layer_adapters * (1 + role.second_adapter)
    return role.layer_parameters + adapters + scene.padding(role, "layer")


@once
def of_root(scene: Scene, role: Role) -> Num:
    """The same of what is outside the layers, or of the head's unit alone."""
    whole = role.root_parameters + scene.padding(role, "root")
    return whole - of_table(scene, role) * apart(scene, role)
