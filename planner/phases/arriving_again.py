"""An embedding that does not train, as a backward that adapters send to it ends.

accelerate makes an untied one FSDP's unit of its own, whose weights arrive before its backward,
though nothing multiplies by them there.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas.formula import Formula
from planner.phases import activations, gathered, reductions, units
from planner.phases.role import Role
from planner.phases.scene import Scene
from planner.phases.training import until_end, with_terms
from planner.term import Instant, Term

EMBEDDING_OUTPUT_GRADIENT = Formula(
    "gradient of the embedding's output",
    "tokens * hidden * value_bytes",
    category="activations",
    source="counted in real steps",
    why="While the embedding's backward writes the weight's dense gradient, it still reads the "
    "gradient of the output.",
)
EMBEDDING_OUTPUT = Formula(
    "embedding's output",
    "tokens * hidden * value_bytes",
    category="activations",
    source="transformers 5.23.0, enable_input_require_grads; counted in dry runs",
    why="The backward through the adapters goes on to the embedding's output, so the embedding's "
    "output is still alive after the first layer's backward.",
)
EMBEDDING_AGAIN = "embedding's all-gather again"
"""The last instant of a backward whose embedding is FSDP's unit of its own, and does not train."""


def instants(
    scene: Scene, role: Role, kept: tuple[Term, ...], held: tuple[Term, ...]
) -> Iterator[Instant]:
    """An embedding that does not train arrives for the end of a backward that adapters send there.

    Of all micro-batches but the last gradients are whole, and none is being reduced. A backward
    that nothing sends there finds the embedding's buffer, which the first layer has asked for, and
    waits for no weights.
    """
    sends = units.apart(scene, role) and role.adapters > 0
    if not sends or gathered.layers_stay(scene, role):
        return
    recomputes = scene.plan.gradient_checkpointing != "none"
    if not (recomputes or activations.embeds_with_gradient(scene, role)):
        return
    arrived = gathered.table(scene, role), gathered.table_buffer(scene, role)
    around = (*arrived, *gathered.arriving_copy(scene, role), *_around(scene, role))
    reduced = (*reductions.at_layer(scene, role, whole=False), *held)
    instant = Instant(name=EMBEDDING_AGAIN, terms=around)
    yield with_terms(instant, reduced)._replace(shared=until_end(scene, role, kept, "layers"))
    yield instant._replace(shared=until_end(scene, role, kept, "accumulated"))


def _around(scene: Scene, role: Role) -> Iterator[Term]:
    """An embedding's output, which adapters make a leaf, and the gradient that ends there."""
    sizes = {"tokens": scene.q.micro_tokens, "hidden": role.arch.hidden}
    width = scene.embedding_bytes(role)
    yield EMBEDDING_OUTPUT(role.name, value_bytes=width, **sizes)
    yield EMBEDDING_OUTPUT_GRADIENT(role.name, value_bytes=width, **sizes)
