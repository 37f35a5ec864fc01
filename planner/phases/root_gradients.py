"""Gradients outside the layers: the head's, made first, and the embedding's, made last.

Autocast's products are in half precision and their gradients, too; a cast gives the head's the
format of its weight. The embedding is no product: all of its gradients are as wide as its weight.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog import measured
from planner.formulas import logits, state
from planner.formulas.formula import Formula
from planner.numeric import Num
from planner.phases import (
    arriving_again,
    collectives,
    found,
    gathered,
    reductions,
    units,
    zero,
)
from planner.phases.arriving_again import EMBEDDING_OUTPUT_GRADIENT
from planner.phases.role import Role
from planner.phases.scene import Scene
from planner.phases.training import Gradients, after_loss, until_end, while_saved
from planner.phases.vocabulary import training_head
from planner.plan.methods import method_of
from planner.term import Instant, Term

HEAD_GRADIENT = Formula(
    "head gradient",
    "head_parameters * value_bytes * (1 - passes_on)",
    category="gradients",
    source="torch autograd: the head's weight gradient is the first of the backward",
    why="With one micro-batch, no gradient but the head's is alive when the layers' backward "
    "begins.",
)


TIED_GRADIENT = Formula(
    "gradient of the tied weight, from the head",
    "head_parameters * value_bytes * waits",
    category="gradients",
    source="torch autograd: a leaf's gradient is added up once all of its uses have given theirs",
    why="The tied weight's gradient from the head waits for the embedding's gradient, which the "
    "backward makes last; gradients of earlier micro-batches are alive beside it.",
)


def end_instants(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The end of the backward: the embedding's dense gradient, then the root's reduction.

    FSDP gives the gradients back when they lie in the reduction's input, before it has an output.
    """
    sharded = scene.fsdp and bool(role.root_trainable)
    yield from _table_instants(scene, role, kept)
    held = tuple(reductions.held_for_all_reduce(scene, role, role.arch.layers))
    if units.embedding_apart(scene, role):
        yield Instant(
            name="embedding's gradient made",
            terms=(*_dense(scene, role), *reductions.embedding_again(scene, role), *held),
            shared=until_end(scene, role, kept, "layers"),
        )
    elif sharded:
        own = units.apart(scene, role)
        yield Instant(
            name="embedding's gradient beside its weights",
            terms=(
                gathered.table(scene, role) if own else gathered.root(scene, role),
                reductions.root_gradients(scene, role, units.trained_at_end(scene, role)),
                *reductions.at_layer(scene, role, whole=False),
                *found.head_again(scene, role),
                *held,
            ),
            shared=until_end(scene, role, kept, "layers"),
        )
    yield from arriving_again.instants(scene, role, kept, held)
    gradients: Gradients = "layers" if sharded or scene.zero_stage > 1 else "all"
    gradients = "made" if scene.zero_stage == 1 else gradients
    yield Instant(
        name="embedding's backward",
        terms=(
            *_embedding(scene, role),
            *reductions.at_end(scene, role),
            *zero.meanwhile(scene, role, zero.END),
            *found.head_again(scene, role),
            *held,
        ),
        shared=until_end(scene, role, kept, gradients),
    )
    yield from _zero_instants(scene, role, kept)
    if sharded and not units.embedding_apart(scene, role):
        yield Instant(
            name="root's gradients reduced",
            terms=(
                reductions.root_reduction(scene, role),
                *found.head_again(scene, role),
                *held,
                *_reduced(scene, role),
                *_beside_reduced(scene, role),
            ),
            shared=until_end(scene, role, kept, "all"),
        )


def _zero_instants(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """DeepSpeed's last reductions: one beside the embedding's gradient, one after it."""
    made: tuple[Term, ...] = ()
    if role.root_trainable:
        # Of a tied one the head's has been added to it.
        made = (
            logits.embedding_backward(
                vocab=role.arch.vocab,
                hidden=role.arch.hidden,
                item_bytes=scene.embedding_bytes(role),
                role=role.name,
            ),
        )
    for place in (zero.END, zero.DONE):
        for name, reducing in zero.reducing(scene, role, place):
            yield Instant(
                name=name,
                terms=(
                    *(made if place == zero.END else ()),
                    *gathered.zero3(scene, role, "backward", place),
                    *zero.meanwhile(scene, role, place),
                    *reducing,
                ),
                shared=until_end(scene, role, kept, "made" if scene.zero_stage == 1 else "layers"),
            )


def _dense(scene: Scene, role: Role) -> Iterator[Term]:
    """An embedding's gradient, and that of its output."""
    tokens, hidden = scene.q.micro_tokens, role.arch.hidden
    yield reductions.root_gradients(scene, role, role.arch.vocab * hidden)
    yield EMBEDDING_OUTPUT_GRADIENT(
        role.name, tokens=tokens, hidden=hidden, value_bytes=scene.q.compute_bytes
    )


def head_reduced(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """A head that is a unit of its own gives its gradient away before the layers go backward."""
    if units.head_apart(scene, role):
        yield Instant(
            name="head's gradient reduced",
            terms=(
                reductions.last_gradient(scene, role, role.head_parameters),
                *reductions.table_reductions(scene, role),
                *collectives.above_layers(scene, role),
            ),
            shared=after_loss(scene, role, kept),
        )
    elif units.trained_of_head(scene, role):
        yield Instant(
            name="head's gradient reduced",
            terms=(
                *reductions.head_reductions(scene, role),
                *collectives.below(scene, role, role.arch.layers),
            ),
            shared=while_saved(scene, role, kept, running=False),
        )


def _table_instants(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """Dense gradients of tables that stand beside the vocabulary's, which is read first."""
    if scene.fsdp or not role.root_trainable:
        return
    width, q = scene.embedding_bytes(role), scene.q
    for rows, columns in measured.tables(role.arch.measured):
        yield Instant(
            name="backward of an embedding for each layer",
            terms=(
                logits.embedding_backward(
                    vocab=rows,
                    hidden=columns,
                    item_bytes=width,
                    role=role.name,
                    passes_on=scene.passes_on,
                ),
                EMBEDDING_OUTPUT_GRADIENT(
                    role.name, tokens=q.micro_tokens, hidden=columns, value_bytes=width
                ),
                *late_head_gradient(scene, role),
            ),
            shared=until_end(scene, role, kept, "layers"),
        )


def _beside_reduced(scene: Scene, role: Role) -> Iterator[Term]:
    """The last gradient of the unit that is reduced at the end, and what comes of the reduction.

    The root's last parameter is its head, or a norm where that is tied: nothing to speak of. Where
    accelerate makes the unit, a tied table is the last.
    """
    if units.apart(scene, role):
        last = units.trained_at_end(scene, role)
    elif gathered.flat(scene):
        return
    else:
        norm = _tied(role) and not units.head_stays(scene)
        last = 0 if norm else role.head_parameters
    yield reductions.last_gradient(scene, role, last)
    yield reductions.reduced_at_end(scene, role)


def _reduced(scene: Scene, role: Role) -> Iterator[Term]:
    """The root's gradients after their reduction, where no other ones have waited for them."""
    if scene.setup.steps_in_backward:
        yield state.GRADIENTS(
            role.name,
            label="gradients of the root, reduced",
            trainable=units.trained_at_end(scene, role) + scene.padding(role, "root"),
            shards=scene.shards_of("gradients"),
            value_bytes=scene.q.gradient_bytes,
        )


def _embedding(scene: Scene, role: Role) -> Iterator[Term]:
    """Its dense gradient, tied ones beside it, and the gradient that reaches it."""
    if scene.fsdp or not role.root_trainable:
        return
    width, apart = scene.embedding_bytes(role), sums_apart(scene, role)
    yield logits.embedding_backward(
        vocab=role.arch.vocab,
        hidden=role.arch.hidden,
        item_bytes=width,
        role=role.name,
        beside=1 + apart if _tied(role) else 0,
        passes_on=scene.passes_on,
    )
    # It is gone before a tied one's is summed apart.
    if not (role.arch.tied and apart):
        tokens, hidden = scene.q.micro_tokens, role.arch.hidden
        yield EMBEDDING_OUTPUT_GRADIENT(role.name, tokens=tokens, hidden=hidden, value_bytes=width)


def tied_instants(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The embedding's gradient is added to the head's, out of place, before FSDP reduces it."""
    if not scene.fsdp or not role.root_trainable or not _tied(role):
        return
    labels = ("head's gradient", "embedding's gradient", "sum of both gradients")
    parts = (
        reductions.root_gradients(scene, role, role.head_parameters, label=label)
        for label in labels[: 2 + sums_apart(scene, role)]
    )
    yield Instant(
        name="tied gradients added",
        terms=(
            *parts,
            gathered.root(scene, role),
            *reductions.at_layer(scene, role, whole=False),
            *reductions.held_for_all_reduce(scene, role, role.arch.layers),
        ),
        shared=until_end(scene, role, kept, "layers"),
    )


def sums_apart(scene: Scene, role: Role) -> int:
    """1 where autograd adds the embedding's gradient to the head's out of place, else 0.

    It adds in place to what nobody else holds: the tensor of a fused head, the sum of chunks, or
    what a cast made. A product's gradient is a view of what the product made.
    """
    materialised = training_head(scene, role).logits in ("full", "response")
    # Self-certainty in pieces reads the head, too: its gradient is a sum already.
    used_twice = role.trained and method_of(scene.plan).second_head_pass(scene.plan)
    return int(materialised and not (_casts(scene, role) or used_twice))


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
        shared=after_loss(scene, role, kept),
    )


def head_gradient(scene: Scene, role: Role) -> Iterator[Term]:
    """The head's gradient while the layers go backward.

    Under FSDP it waits, whole, for the end of the backward, and so does a tied one; otherwise it
    joins the gradients.
    """
    if not role.root_trainable:
        return
    if units.head_apart(scene, role):
        if not scene.keeps_gradients:
            return
        yield state.UPPER_LAYERS(
            role.name,
            tensors=1,
            trainable_above=role.head_parameters,
            shards=scene.shards_of("gradients"),
            value_bytes=scene.q.gradient_bytes,
            micro_batches=scene.q.micro_batches,
        )
    elif scene.fsdp:
        yield reductions.root_gradients(scene, role, role.head_parameters)
    elif _tied(role):
        yield _waiting(scene, role, 1)
    else:
        yield HEAD_GRADIENT(
            role.name,
            head_parameters=role.head_parameters,
            value_bytes=scene.q.gradient_bytes,
            passes_on=scene.passes_on,
        )


def late_head_gradient(scene: Scene, role: Role) -> Iterator[Term]:
    """What of the head's gradient the gradients of all layers leave out near the end.

    A head that is FSDP's unit of its own has been reduced by then.

    Of one micro-batch a tied head's is counted among them, as the embedding's.
    """
    if scene.fsdp:
        if not (units.apart(scene, role) or units.head_apart(scene, role)):
            yield from head_gradient(scene, role)
    elif role.root_trainable and _tied(role):
        yield _waiting(scene, role, scene.passes_on)


def _waiting(scene: Scene, role: Role, waits: Num) -> Term:
    return TIED_GRADIENT(
        role.name,
        head_parameters=role.head_parameters,
        value_bytes=scene.q.gradient_bytes,
        waits=waits,
    )


def _tied(role: Role) -> bool:
    return role.arch.tied and not role.value_head
