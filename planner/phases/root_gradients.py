"""Gradients outside the layers: the head's, made first, and the embedding's, made last.

Autocast's products are in half precision and their gradients, too; a cast gives the head's the
format of its weight. The embedding is no product: all of its gradients are as wide as its weight.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Instant, Term
from planner.formulas import logits, sharding
from planner.formulas.formula import Formula
from planner.methods import method_of
from planner.numeric import Num, minimum
from planner.phases import gathered, saved, scored
from planner.phases.role import Role
from planner.phases.scene import Scene
from planner.phases.training import until_end, while_saved
from planner.phases.vocabulary import training_head

EMBEDDING_OUTPUT_GRADIENT = Formula(
    "gradient of the embedding's output",
    "tokens * hidden * value_bytes",
    category="activations",
    source="counted in real steps",
    why="The embedding's backward reads it while it writes the dense gradient.",
)

HEAD_GRADIENT = Formula(
    "head gradient",
    "head_parameters * value_bytes * (1 - minimum(micro_batches - 1, 1))",
    category="gradients",
    source="torch autograd: the head's weight gradient is the first of the backward",
    why="With one micro-batch only the head's gradient is alive when the layers begin.",
)


TIED_GRADIENT = Formula(
    "gradient of the tied weight, from the head",
    "head_parameters * value_bytes * waits",
    category="gradients",
    source="torch autograd: a leaf's gradient is added up once all of its uses have given theirs",
    why="It waits for the embedding's, the last of the backward, beside earlier micro-batches'.",
)


def end_instants(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The end of the backward: the embedding's dense gradient, then the root's reduction.

    FSDP gives the gradients back when they lie in the reduction's input, before it has an output.
    """
    sharded = scene.fsdp and bool(role.root_trainable)
    yield _embedding_instant(scene, role, kept, "layers" if sharded else "all")
    if sharded:
        yield Instant(
            name="root's gradients reduced",
            terms=(
                gathered.root_reduction(scene, role),
                *gathered.held_for_all_reduce(scene, role, role.arch.layers),
            ),
            shared=until_end(scene, role, kept, "all"),
        )


def _embedding_instant(scene: Scene, role: Role, kept: tuple[Term, ...], gradients: str) -> Instant:
    dense: tuple[Term, ...] = ()
    if role.root_trainable and not scene.fsdp:
        dense = (
            logits.embedding_backward(
                vocab=role.arch.vocab,
                hidden=role.arch.hidden,
                item_bytes=scene.embedding_bytes(role),
                role=role.name,
                beside=_beside_tied(scene, role),
                micro_batches=scene.q.micro_batches,
            ),
        )
        if not (role.arch.tied and sums_apart(scene, role)):
            dense = (*dense, *_embedding_output_gradient(scene, role))
    return Instant(
        name="embedding's backward",
        terms=(
            *dense,
            *gathered.reductions_at_end(scene, role),
            *gathered.held_for_all_reduce(scene, role, role.arch.layers),
        ),
        shared=until_end(scene, role, kept, gradients),
    )


def tied_instants(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The embedding's gradient is added to the head's, out of place, before FSDP reduces it."""
    if not scene.fsdp or not role.root_trainable or not _tied(role):
        return
    labels = ("head's gradient", "embedding's gradient", "sum of both gradients")
    parts = tuple(
        sharding.ROOT_GRADIENTS(
            role.name,
            label=label,
            root_parameters_trained=role.head_parameters,
            value_bytes=scene.q.compute_bytes,
        )
        for label in labels[: 2 + sums_apart(scene, role)]
    )
    yield Instant(
        name="tied gradients added",
        terms=(
            *parts,
            *gathered.root(scene, role),
            *gathered.reductions_at_layer(scene, role, whole=False),
            *gathered.held_for_all_reduce(scene, role, role.arch.layers),
        ),
        shared=until_end(scene, role, kept, "layers"),
    )


def _beside_tied(scene: Scene, role: Role) -> int:
    """Tied gradients that are alive beside the embedding's own when the backward ends."""
    return 1 + sums_apart(scene, role) if _tied(role) else 0


def sums_apart(scene: Scene, role: Role) -> int:
    """1 where autograd adds the embedding's gradient to the head's out of place, else 0.

    It adds in place to what nobody else holds: the tensor of a fused head, the sum of chunks, or
    what a cast made. A product's gradient is a view of what the product made.
    """
    materialised = training_head(scene, role).logits in ("full", "response")
    return int(materialised and not (_casts(scene, role) or _used_twice(scene, role)))


def _used_twice(scene: Scene, role: Role) -> bool:
    """Whether the head's gradient is a sum already: self-certainty in pieces reads it, too."""
    return role.trained and method_of(scene.plan).second_head_pass(scene.plan)


def _embedding_output_gradient(scene: Scene, role: Role) -> Iterator[Term]:
    """The gradient that reaches the embedding; it is gone before a tied one's is summed apart."""
    yield EMBEDDING_OUTPUT_GRADIENT(
        role.name,
        tokens=scene.q.micro_tokens,
        hidden=role.arch.hidden,
        value_bytes=scene.embedding_bytes(role),
    )


def _casts(scene: Scene, role: Role) -> bool:
    """Whether autocast's gradient of the head is cast to the format of its weight."""
    return scene.embedding_bytes(role) > scene.q.compute_bytes


def cast_instants(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The head's gradient in both formats; the logits' is gone by then, and so is the copy.

    Of a loss in tiles or chunks the sum is in fp32 from the start.
    """
    head = training_head(scene, role)
    if role.value_head or not _casts(scene, role) or head.logits not in ("full", "response"):
        return
    yield Instant(
        name="head's gradient cast",
        terms=logits.cast_gradients(head, role=role.name),
        shared=(
            *while_saved(scene, role, kept, running=False),
            saved.inside_final_norm(scene, role),
            scored.after_scoring(scene, role),
        ),
    )


def head_gradient(scene: Scene, role: Role) -> Iterator[Term]:
    """The head's gradient while the layers go backward.

    Under FSDP it waits, whole, for the end of the backward, and so does a tied one; otherwise it
    joins the gradients.
    """
    if not role.root_trainable:
        return
    if scene.fsdp:
        yield sharding.ROOT_GRADIENTS(
            role.name,
            root_parameters_trained=role.head_parameters,
            value_bytes=scene.q.compute_bytes,
        )
    elif _tied(role):
        yield _waiting(scene, role, 1)
    else:
        yield HEAD_GRADIENT(
            role.name,
            head_parameters=role.head_parameters,
            value_bytes=scene.q.gradient_bytes,
            micro_batches=scene.q.micro_batches,
        )


def late_head_gradient(scene: Scene, role: Role) -> Iterator[Term]:
    """What of the head's gradient the gradients of all layers leave out near the end.

    Of one micro-batch a tied head's is counted among them, as the embedding's.
    """
    if scene.fsdp:
        yield from head_gradient(scene, role)
    elif role.root_trainable and _tied(role):
        yield _waiting(scene, role, minimum(scene.q.micro_batches - 1, 1))


def _waiting(scene: Scene, role: Role, waits: Num) -> Term:
    return TIED_GRADIENT(
        role.name,
        head_parameters=role.head_parameters,
        value_bytes=scene.q.gradient_bytes,
        waits=waits,
    )


def _tied(role: Role) -> bool:
    return role.arch.tied and not role.value_head
