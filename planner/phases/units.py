"""What FSDP gathers outside the layers: one root unit, or an embedding and a head apart."""

from __future__ import annotations

from planner.numeric import Num, ceil_div
from planner.phases.role import Role
from planner.phases.scene import Scene


def apart(scene: Scene, role: Role) -> bool:
    """Whether the embedding is a unit, and final norm and head are another.

    The embedding is gathered for its lookup and, though its gradient needs no weight, in the
    backward; the head from the end of the forward to its own backward. Tied ones are one unit.
    """
    tied = role.arch.tied and not role.value_head
    tables = role.arch.measured or role.arch.learned_positions
    return head_stays(scene) and not (tied or tables)


def head_stays(scene: Scene) -> bool:
    """Whether what the head needs is not resharded between forward and backward."""
    return scene.plan.sharding == "fsdp2" and scene.framework.head_stays_gathered


def of_embedding(scene: Scene, role: Role) -> Num:
    """Elements of the embedding's unit as they travel, padding included."""
    rows = ceil_div(role.arch.vocab, scene.q.shards) * scene.q.shards
    return rows * role.arch.hidden


def trained_at_end(scene: Scene, role: Role) -> int:
    """Trained elements whose gradients are reduced when the whole backward has ended."""
    return role.root_trainable - trained_of_head(scene, role)


def trained_of_head(scene: Scene, role: Role) -> int:
    """Trained elements of a head's unit of its own, reduced once it has gone backward."""
    if not (apart(scene, role) and role.root_trainable):
        return 0
    return role.root_trainable - role.arch.vocab * role.arch.hidden
