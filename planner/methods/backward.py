"""The backward of a trained role: the instants that can own its peak.

Live memory between two neighbouring instants is linear in the layer that runs, so the
ends are enough: the last layer (everything saved, few gradients) and the first layer
(little saved, all other gradients); FSDP adds the layer before the last, the first to
run beside a reduction.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Instant, Term
from planner.formulas import allocator, logits, sharding, state
from planner.formulas.formula import Formula
from planner.methods import gathered, saved
from planner.methods.resident import adapter_bytes
from planner.methods.role import Role
from planner.methods.scene import Scene
from planner.methods.training import (
    Bundles,
    at_head,
    objective,
    until_end,
    while_saved,
    with_terms,
)
from planner.methods.vocabulary import training_head

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


def backward_instants(scene: Scene, role: Role, kept: tuple[Term, ...] = ()) -> tuple[Instant, ...]:
    """Instants of one backward."""
    head = training_head(scene, role)
    losses = logits.backward_instants(head, objective=objective(scene, role), role=role.name)
    idle = tuple(_freed_logits(scene, role, head))
    return (
        *(at_head(scene, role, with_terms(loss, idle), kept) for loss in losses),
        _last_layer(scene, role, kept),
        *_layer_before(scene, role, kept),
        _first_layer(scene, role, kept),
        _embedding(scene, role, kept),
    )


def _freed_logits(scene: Scene, role: Role, head: logits.Head) -> Iterator[Term]:
    """The segment that upcast logits leave behind; expandable segments reuse it."""
    materialised = head.logits in ("full", "response") and not role.value_head
    if materialised and head.upcasts and not scene.plan.expandable_segments:
        yield allocator.FREED_LOGITS(
            role.name, item_bytes=head.item_bytes, tokens=head.tokens, vocab=head.vocab
        )


def _last_layer(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Instant:
    """The last layer's backward: everything still saved, the head's gradient just made."""
    return Instant(
        name="last layer's backward",
        terms=tuple(_head_gradient(scene, role)),
        shared=(*while_saved(scene, role, kept), *_layer_backward(scene, role, "last")),
    )


def _layer_before(scene: Scene, role: Role, kept: tuple[Term, ...]) -> tuple[Instant, ...]:
    """The layer before the last: the first to run beside a reduction, which FSDP has."""
    if not scene.fsdp or role.arch.layers < 2:
        return ()
    return (
        Instant(
            name="backward beside a reduction",
            terms=tuple(_head_gradient(scene, role)),
            shared=(*while_saved(scene, role, kept, 1), *_layer_backward(scene, role, "inner")),
        ),
    )


def _first_layer(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Instant:
    """The first layer's backward: one layer saved, all other layers' gradients made."""
    waiting = tuple(_head_gradient(scene, role)) if scene.fsdp else ()
    return Instant(
        name="first layer's backward",
        terms=(*saved.first_layer(scene, role), *waiting),
        shared=(*until_end(scene, role, kept, "layers"), *_layer_backward(scene, role, "first")),
    )


def _embedding(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Instant:
    """The end of the backward: the embedding's dense gradient, the root's reduction."""
    dense: tuple[Term, ...] = ()
    if role.root_trainable and not scene.fsdp:
        dense = (
            logits.embedding_backward(
                vocab=role.arch.vocab,
                hidden=role.arch.hidden,
                item_bytes=scene.q.compute_bytes,
                role=role.name,
                tied=role.arch.tied and not role.value_head,
                micro_batches=scene.q.micro_batches,
            ),
        )
        if not role.arch.tied:
            dense = (*dense, *_embedding_output_gradient(scene, role))
    return Instant(
        name="embedding's backward",
        terms=(*dense, *gathered.reductions_at_end(scene, role)),
        shared=until_end(scene, role, kept, "all"),
    )


def _embedding_output_gradient(scene: Scene, role: Role) -> Iterator[Term]:
    """The gradient that reaches the embedding; a tied one's sum comes after it is gone."""
    yield EMBEDDING_OUTPUT_GRADIENT(
        role.name,
        tokens=scene.q.micro_tokens,
        hidden=role.arch.hidden,
        value_bytes=scene.q.compute_bytes,
    )


def _head_gradient(scene: Scene, role: Role) -> Iterator[Term]:
    """The head's gradient while the layers go backward.

    Under FSDP it waits, whole, for the end of the backward; otherwise it joins the
    gradients, and a tied head's is the embedding's.
    """
    if not role.root_trainable:
        return
    if scene.fsdp:
        yield sharding.ROOT_GRADIENTS(
            role.name,
            root_parameters_trained=role.head_parameters,
            value_bytes=scene.q.compute_bytes,
        )
    else:
        yield HEAD_GRADIENT(
            role.name,
            head_parameters=role.head_parameters,
            value_bytes=scene.q.gradient_bytes,
            micro_batches=scene.q.micro_batches,
        )


def _layer_backward(scene: Scene, role: Role, which: str) -> Bundles:
    """One layer's backward: recomputed activations, gradients in flight, reductions.

    ``which`` is ``last`` (the first to go backward), ``inner`` or ``first``.
    """
    activations = scene.once(
        ("layer backward", role.name), lambda: saved.layer_backward(scene, role)
    )
    layers = role.arch.layers
    whole = {"last": layers, "inner": max(layers - 1, 1), "first": 1}[which]
    return (
        activations,
        (
            *gathered.at_layer(scene, role, whole_layers=whole),
            *gathered.reductions_at_layer(scene, role, first=which == "last"),
            *_being_added(scene, role),
        ),
    )


def _being_added(scene: Scene, role: Role) -> Iterator[Term]:
    """A weight gradient beside the sum it is added to; FSDP counts a whole layer instead."""
    if scene.fsdp:
        return
    yield state.LARGEST_GRADIENT(
        role.name,
        largest_weight=role.layer_adapters if role.adapters else role.largest_layer_weight,
        value_bytes=adapter_bytes(scene) if role.adapters else scene.q.compute_bytes,
        micro_batches=scene.q.micro_batches,
    )
