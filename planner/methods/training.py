"""Forward, backward and optimizer step of a trained role (policy or critic).

Each phase lists the instants that can own its peak; the estimate takes the highest.
Live memory between two neighbouring instants is linear in the layer that runs, so the
ends are enough: the last layer (everything saved, few gradients) and the first layer
(little saved, all gradients).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.footprint import Instant, Term
from planner.formulas import allocator, logits, sharding, state
from planner.formulas.formula import Formula
from planner.methods import gathered, saved
from planner.methods.resident import adapter_bytes, resident
from planner.methods.role import Role
from planner.methods.scene import Moment, Scene
from planner.methods.vocabulary import training_head

Bundles = tuple[tuple[Term, ...], ...]

HELD_HIDDEN = Formula(
    "head input, held by name",
    "tokens * hidden * value_bytes",
    category="activations",
    source="transformers 5.23.0 modeling files: forward() names its hidden states while it "
    "computes logits and loss; counted in real LoRA steps",
    why="A frozen head saves nothing for its weight, but its input is alive until forward returns.",
)

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


def objective(scene: Scene, role: Role) -> str:
    """Which loss meets the head."""
    if role.value_head:
        return "value"
    return "sft" if scene.plan.method == "sft" else "policy"


def forward_instants(scene: Scene, role: Role, kept: tuple[Term, ...] = ()) -> tuple[Instant, ...]:
    """Instants of one training forward; ``kept`` is alive throughout (old log-probs, ...)."""
    layer = Instant(
        name="last layer's forward",
        terms=(*saved.layer_forward(scene, role), *gathered.at_layer(scene, role)),
        shared=_while_saved(scene, role, kept),
    )
    head = training_head(scene, role)
    # transformers computes the loss inside forward(), where the logits still have a name.
    held = scene.plan.method == "sft" and head.framework == "plain"
    losses = logits.forward_instants(
        replace(head, logits_held=held), objective=objective(scene, role), role=role.name
    )
    named = tuple(_named_hidden(scene, role))
    return (layer, *(_at_head(scene, role, _with(loss, named), kept) for loss in losses))


def backward_instants(scene: Scene, role: Role, kept: tuple[Term, ...] = ()) -> tuple[Instant, ...]:
    """Instants of one backward."""
    head = training_head(scene, role)
    losses = logits.backward_instants(head, objective=objective(scene, role), role=role.name)
    idle = tuple(_freed_logits(scene, role, head))
    return (
        *(_at_head(scene, role, _with(loss, idle), kept) for loss in losses),
        _last_layer(scene, role, kept),
        *_layer_before(scene, role, kept),
        _first_layer(scene, role, kept),
        _embedding(scene, role, kept),
    )


def _named_hidden(scene: Scene, role: Role) -> Iterator[Term]:
    """The head's input while the loss runs: a frozen head does not save it, its name does."""
    if role.root_trainable:
        return
    q = scene.q
    yield HELD_HIDDEN(
        role.name, tokens=q.micro_tokens, hidden=role.arch.hidden, value_bytes=q.compute_bytes
    )


def _freed_logits(scene: Scene, role: Role, head: logits.Head) -> Iterator[Term]:
    """The segment that upcast logits leave behind; expandable segments reuse it."""
    materialised = head.logits in ("full", "response") and not role.value_head
    if materialised and head.upcasts and not scene.plan.expandable_segments:
        yield allocator.FREED_LOGITS(
            role.name, item_bytes=head.item_bytes, tokens=head.tokens, vocab=head.vocab
        )


def _with(instant: Instant, more: tuple[Term, ...]) -> Instant:
    return replace(instant, terms=(*instant.terms, *more))


def optimizer_instants(
    scene: Scene, role: Role, kept: tuple[Term, ...] = ()
) -> tuple[Instant, ...]:
    """The optimizer step: all gradients, all state, and the update's temporaries."""
    return (
        Instant(
            name="optimizer step",
            terms=tuple(_step_temporaries(scene, role)),
            shared=(resident(scene, moment_of(role), gradients="all"), kept),
        ),
    )


def at_head_instant(scene: Scene, name: str, terms: tuple[Term, ...]) -> Instant:
    """Further terms at the policy's head during training, beside all that is saved."""
    return _at_head(scene, scene.policy, Instant(name=name, terms=terms), ())


def moment_of(role: Role) -> Moment:
    """The moment at which a role is updated."""
    return "critic update" if role.value_head else "policy update"


def _while_saved(scene: Scene, role: Role, kept: tuple[Term, ...], done: int = 0) -> Bundles:
    """What is alive from the end of the layers' forward until ``done`` went backward."""
    return (
        resident(scene, moment_of(role), gradients="accumulated"),
        saved.weight_copies(scene, role),
        saved.all_layers(scene, role, done),
        kept,
    )


def _until_end(scene: Scene, role: Role, kept: tuple[Term, ...], gradients: str) -> Bundles:
    """What is alive from the first layer's backward on, with the gradients made by then."""
    return (
        resident(scene, moment_of(role), gradients=gradients),
        saved.weight_copies(scene, role),
        kept,
    )


def _at_head(scene: Scene, role: Role, loss: Instant, kept: tuple[Term, ...]) -> Instant:
    gathered_now = scene.once(
        ("at head", role.name), lambda: gathered.at_head(scene, role, gradient=True)
    )
    return Instant(
        name=loss.name,
        terms=loss.everything,
        shared=(
            *_while_saved(scene, role, kept),
            saved.final_norm(scene, role),
            gathered_now,
        ),
    )


def _last_layer(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Instant:
    """The last layer's backward: everything still saved, the head's gradient just made."""
    return Instant(
        name="last layer's backward",
        terms=tuple(_head_gradient(scene, role)),
        shared=(*_while_saved(scene, role, kept), _layer_backward(scene, role, "last")),
    )


def _layer_before(scene: Scene, role: Role, kept: tuple[Term, ...]) -> tuple[Instant, ...]:
    """The layer before the last: the first to run beside a reduction, which FSDP has."""
    if not scene.fsdp or role.arch.layers < 2:
        return ()
    return (
        Instant(
            name="backward beside a reduction",
            terms=tuple(_head_gradient(scene, role)),
            shared=(*_while_saved(scene, role, kept, 1), _layer_backward(scene, role, "inner")),
        ),
    )


def _first_layer(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Instant:
    """The first layer's backward: one layer saved, all other layers' gradients made."""
    waiting = tuple(_head_gradient(scene, role)) if scene.fsdp else ()
    return Instant(
        name="first layer's backward",
        terms=(*saved.first_layer(scene, role), *waiting),
        shared=(*_until_end(scene, role, kept, "layers"), _layer_backward(scene, role, "first")),
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
        shared=_until_end(scene, role, kept, "all"),
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


def _layer_backward(scene: Scene, role: Role, which: str) -> tuple[Term, ...]:
    """One layer's backward: recomputed activations, gradients in flight, reductions.

    ``which`` is ``last`` (the first to go backward), ``inner`` or ``first``.
    """
    activations = scene.once(
        ("layer backward", role.name), lambda: saved.layer_backward(scene, role)
    )
    layers = role.arch.layers
    whole = {"last": layers, "inner": max(layers - 1, 1), "first": 1}[which]
    return (
        *activations,
        *gathered.at_layer(scene, role, whole_layers=whole),
        *gathered.reductions_at_layer(scene, role, first=which == "last"),
        *_being_added(scene, role),
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


def _step_temporaries(scene: Scene, role: Role) -> Iterator[Term]:
    plan, q = scene.plan, scene.q
    sizes = {"trainable": role.trainable, "shards": scene.shards_of("optimizer")}
    if plan.offload not in ("optimizer", "all"):
        if plan.optimizer == "adamw-foreach":
            yield state.FOREACH_TEMPORARY(
                role.name,
                layout=role.trained_layout,
                tensors=role.adapter_tensors,
                value_bytes=q.master_bytes,
                **sizes,
            )
        if scene.zero_stage and plan.dtype != "fp32":
            yield state.ZERO_STEP_TEMPORARY(role.name, **sizes)
    if scene.zero_stage in (1, 2):
        yield sharding.ZERO_GATHER(role.name, trainable=role.trainable, value_bytes=q.compute_bytes)
