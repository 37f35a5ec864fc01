"""What a trainer still has on the GPU beside the input of the running layer.

TRL's ``OffloadActivations`` (trl/models/activation_offloading.py, 1.16.0) numbers every tensor that
autograd saves. One is copied to host RAM at once, and let go of on the GPU when
``max_fwd_stash_size`` more have been saved; one that was brought back, when the next node of the
graph that needs one has run. Dry runs by TRL's own code and real ones on a CPU show each of these.
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.numeric import minimum
from planner.phases.role import Role
from planner.phases.scene import Scene, once
from planner.term import Bundle

SOURCE = "trl/models/activation_offloading.py of TRL 1.16.0; counted in dry runs by its own code"
OF_FINAL_NORM = 2
"""Tensors of a frozen RMSNorm that go, its input and the mean: each lets go of one before. A
trained one saves its output, too, and lets go of all."""
BROUGHT_BACK = Formula(
    "brought back for the layer above",
    "tokens * hidden * value_bytes",
    category="activations",
    source=SOURCE,
    why="The tensor brought back for the layer above is freed after the first node of this layer's "
    "backward.",
)
LEFT = Formula(
    "embeddings of the backward before, and their gradient",
    "2 * tokens * hidden * value_bytes",
    category="activations",
    source=SOURCE,
    why="TRL's offloading keeps the last graph node that it visited, and with it the graph down to "
    "the embeddings.",
)

EARLIER = Formula(
    "embeddings of the micro-batch before, and their gradient",
    "2 * tokens * hidden * value_bytes * again",
    category="activations",
    source="verl 0.9.1 transformer_impl.py, forward_backward_batch; seen in dry runs by its own "
    "code",
    why="A micro-batch's loss stays alive until the next micro-batch's loss exists, and keeps the "
    "graph alive down to the embeddings. An update's first micro-batch has no micro-batch before "
    "it (again is 0).",
)


def in_layers(scene: Scene) -> int:
    """Inputs of layers on the GPU while a layer of the forward runs, its own among them."""
    return scene.setup.offload_stash


def at_head(scene: Scene, role: Role) -> int:
    """The same when the final norm has saved what it needs."""
    return max(scene.setup.offload_stash - OF_FINAL_NORM, 0) if role.adapters else 0


def brought_back(scene: Scene, role: Role, *, of_norm: bool) -> Bundle:
    """What the backward needed before a layer's: a layer's input, or the final norm's in fp32."""
    if not _stashes(scene):
        return ()
    return _input(scene, role, BROUGHT_BACK, 4 if of_norm else scene.embedding_bytes(role))


def left(scene: Scene, role: Role) -> Bundle:
    """What stays until the next backward: of adapters, whose embeddings are a leaf of the graph."""
    if not (_stashes(scene) and role.adapters):
        return ()
    return _input(scene, role, LEFT, scene.embedding_bytes(role))


@once
def earlier(scene: Scene, role: Role) -> Bundle:
    """What the micro-batch before has left while this one goes forward, as :func:`left`."""
    if not role.adapters or "embeddings" not in scene.setup[role.name].requires_gradients:
        return ()
    tokens, hidden, again = scene.q.micro_tokens, role.arch.hidden, scene.q.micro_batches - 1
    width = scene.embedding_bytes(role)
    return (
        EARLIER(
            role.name, tokens=tokens, hidden=hidden, value_bytes=width, again=minimum(again, 1)
        ),
    )


@once
def _input(scene: Scene, role: Role, formula: Formula, value_bytes: int) -> Bundle:
    tokens, hidden = scene.q.micro_tokens, role.arch.hidden
    return (formula(role.name, tokens=tokens, hidden=hidden, value_bytes=value_bytes),)


def _stashes(scene: Scene) -> bool:
    return bool(scene.plan.activation_offload) and scene.setup.offload_stash > 1
