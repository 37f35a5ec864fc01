"""Forward and optimizer step of a trained role (policy or critic).

What they share with its backward (:mod:`planner.methods.backward`) stands here too.
Each phase lists the instants that can own its peak; the estimate takes the highest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.footprint import Instant, Term
from planner.formulas import logits, sharding, state
from planner.formulas.formula import Formula
from planner.methods import gathered, saved
from planner.methods.resident import resident
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
        shared=while_saved(scene, role, kept),
    )
    head = training_head(scene, role)
    # transformers computes the loss inside forward(), where the logits still have a name.
    held = scene.plan.method == "sft" and head.framework == "plain"
    losses = logits.forward_instants(
        replace(head, logits_held=held), objective=objective(scene, role), role=role.name
    )
    named = tuple(_named_hidden(scene, role))
    return (layer, *(at_head(scene, role, with_terms(loss, named), kept) for loss in losses))


def _named_hidden(scene: Scene, role: Role) -> Iterator[Term]:
    """The head's input while the loss runs: a frozen head does not save it, its name does."""
    if role.root_trainable:
        return
    q = scene.q
    yield HELD_HIDDEN(
        role.name, tokens=q.micro_tokens, hidden=role.arch.hidden, value_bytes=q.compute_bytes
    )


def with_terms(instant: Instant, more: tuple[Term, ...]) -> Instant:
    """The instant with further terms of its own."""
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
    return at_head(scene, scene.policy, Instant(name=name, terms=terms), ())


def moment_of(role: Role) -> Moment:
    """The moment at which a role is updated."""
    return "critic update" if role.value_head else "policy update"


def while_saved(scene: Scene, role: Role, kept: tuple[Term, ...], done: int = 0) -> Bundles:
    """What is alive from the end of the layers' forward until ``done`` went backward."""
    return (
        resident(scene, moment_of(role), gradients="accumulated"),
        saved.weight_copies(scene, role),
        saved.all_layers(scene, role, done),
        kept,
    )


def until_end(scene: Scene, role: Role, kept: tuple[Term, ...], gradients: str) -> Bundles:
    """What is alive from the first layer's backward on, with the gradients made by then."""
    return (
        resident(scene, moment_of(role), gradients=gradients),
        saved.weight_copies(scene, role),
        kept,
    )


def at_head(scene: Scene, role: Role, loss: Instant, kept: tuple[Term, ...]) -> Instant:
    """An instant of the loss beside all that is alive while the head computes."""
    gathered_now = scene.once(
        ("at head", role.name), lambda: gathered.at_head(scene, role, gradient=True)
    )
    return Instant(
        name=loss.name,
        terms=loss.everything,
        shared=(
            *while_saved(scene, role, kept),
            saved.final_norm(scene, role),
            gathered_now,
        ),
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
