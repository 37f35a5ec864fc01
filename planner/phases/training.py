"""Forward and optimizer step of a trained role (policy or critic).

What they share with its backward (:mod:`planner.phases.backward`) stands here too.
Each phase lists the instants that can own its peak; the estimate takes the highest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from planner.formulas import logits, sharding, state
from planner.formulas.activations.layers import LAYER_INPUT
from planner.formulas.activations.model import LEAF
from planner.numeric import Num, minimum
from planner.phases import activations, collectives, positions, stashed, units, zero
from planner.phases.layer_kinds import layer_kinds
from planner.phases.role import Role
from planner.phases.scene import Scene, shared
from planner.phases.vocabulary import casts_tiles, policy_objective, training_head
from planner.term import Bundle, Instant, Standing, Term
from planner.values.loss_code import CROSS_ENTROPY, VALUE
from planner.values.step_phases import CRITIC_UPDATE, POLICY_UPDATE, Moment

Bundles = tuple[Bundle | Standing, ...]
Gradients = Literal["none", "accumulated", "layers", "made", "all"]

FIRST_INPUTS = (LAYER_INPUT, "checkpointed layer inputs", LEAF)
"""What the embedding's output is called where it is kept."""


def objective(scene: Scene, role: Role) -> str:
    """Which loss meets the head."""
    return VALUE if role.value_head else policy_objective(scene.plan)


def forward_instants(scene: Scene, role: Role, kept: tuple[Term, ...] = ()) -> tuple[Instant, ...]:
    """Instants of one training forward; ``kept`` is alive throughout (old log-probs, ...)."""
    recomputes = scene.plan.gradient_checkpointing != "none"
    layers = (
        Instant(
            name=f"last {kind.word}layer's forward",
            terms=(
                *activations.layer_forward(scene, role, kind.sparse),
                *collectives.at_layer(scene, role, trains=True),
            ),
            shared=(
                *while_saved(
                    scene,
                    role,
                    kept,
                    role.arch.layers - 1 - kind.last,
                    near=min(stashed.in_layers(scene), kind.last + 1),
                ),
                *left(scene, role),
                # No layer's saved tensors hold those of a layer that is recomputed.
                activations.weight_copies(scene, role, layers=recomputes, head=False),
                *named_masks(scene, role),
                embedded(scene, role),
            ),
        )
        for kind in layer_kinds(role.arch)
    )
    head = training_head(scene, role)
    # transformers computes the loss inside forward(), where the logits still have a name, as the
    # model returns them.
    loss = objective(scene, role)
    if loss == CROSS_ENTROPY:
        head = replace(head, logits_held=not role.arch.casts_logits)
    losses = logits.forward_instants(head, objective=loss, role=role.name)
    return (
        *_weights_arrive(scene, role, kept),
        *layers,
        *(at_head(scene, role, loss, kept) for loss in losses),
    )


def _weights_arrive(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """FSDP gathers the root and the first layer before anything is saved, the last after."""
    q = scene.q
    embedding = (
        Standing(moment_of(role), "accumulated"),
        positions.micro_batch(scene, role),
        activations.next_input(scene, role),
        stashed.earlier(scene, role),
        kept,
    )
    before = (
        *embedding,
        activations.shared_by_layers(scene, role),
        activations.masks(scene, role),
        (positions.embedded(scene, role, q.micro_rows, q.micro_row_tokens, saved=True),),
    )
    # An offloaded input is counted as the one that is near.
    offloads = scene.plan.activation_offload
    read = () if offloads else (activations.next_input(scene, role),)
    named = (*named_masks(scene, role), *read, embedded(scene, role))
    after = (*while_saved(scene, role, kept, done=1), stashed.earlier(scene, role), *named)
    # A unit of final norm and head arrives before the norm runs, a head's own after it, for what
    # the norm has answered.
    answered = (activations.inside_final_norm(scene, role), activations.next_input(scene, role))
    inside = named if units.apart(scene, role) else answered
    above = (*while_saved(scene, role, kept, running=False), stashed.earlier(scene, role), *inside)
    for name, arriving in collectives.arrivals(scene, role, trains=True):
        shared = before if name.startswith("first") else after
        if name in (collectives.EMBEDDING_ARRIVES, collectives.HEAD_ARRIVES):
            # Tables and masks are made when the embedding's output is there.
            shared = embedding if name == collectives.EMBEDDING_ARRIVES else above
        yield Instant(name=name, terms=arriving, shared=shared)


def left(scene: Scene, role: Role) -> Bundles:
    """What a forward finds of backwards before it."""
    return stashed.left(scene, role), stashed.earlier(scene, role)


def named_masks(scene: Scene, role: Role) -> Bundles:
    """Masks while layers run; where layers are checkpointed, they are counted as theirs."""
    return () if scene.plan.gradient_checkpointing != "none" else (activations.masks(scene, role),)


@shared
def embedded(scene: Scene, role: Role) -> Iterator[Term]:
    """The embedding's output, unless the first layer has kept it as its input."""
    first = activations.first_layers(scene, role)
    # An offloaded copy does not spare the tensor that forward() names.
    offloads, q = scene.plan.activation_offload, scene.q
    kept = any(term.name in FIRST_INPUTS for term in first) and not offloads
    yield positions.embedded(scene, role, q.micro_rows, q.micro_row_tokens, saved=kept)


def with_terms(instant: Instant, more: tuple[Term, ...]) -> Instant:
    """The instant with further terms of its own."""
    return instant._replace(terms=(*instant.terms, *more))


def optimizer_instants(
    scene: Scene, role: Role, kept: tuple[Term, ...] = ()
) -> tuple[Instant, ...]:
    """The optimizer step: all gradients, all state, and the update's temporaries."""
    return (
        Instant(
            name="optimizer step",
            terms=tuple(_step_temporaries(scene, role)),
            shared=(Standing(moment_of(role), "all"), stashed.left(scene, role), kept),
        ),
        *(
            Instant(
                name="norms of the gradients",
                terms=(norm,),
                shared=(Standing(moment_of(role), "all"), stashed.left(scene, role), kept),
            )
            for norm in _zero_norms(scene, role)
        ),
    )


def _zero_step(scene: Scene, role: Role, sizes: dict[str, Num]) -> Iterator[Term]:
    """Half-precision gradients are put end to end and widened; fp32 ones are used as they are.

    Stage 3 puts these end to end as well, a sub-group at a time.
    """
    q, widened = scene.q, scene.q.gradient_bytes != 4
    if scene.zero_stage == 3:
        most = zero.sub_group(scene, role) * sizes["shards"]
        sizes = {**sizes, "trainable": minimum(sizes["trainable"], most)}
    if widened or scene.zero_stage == 3:
        yield sharding.ZERO_FLAT_GRADIENTS(role.name, value_bytes=q.gradient_bytes, **sizes)
    if widened:
        yield state.ZERO_STEP_TEMPORARY(role.name, **sizes)


def _zero_norms(scene: Scene, role: Role) -> Iterator[Term]:
    """Before the update ZeRO takes gradients' norms; its optimizer of bf16 in fp32 does without."""
    if scene.zero_stage and not scene.setup.zero_widens:
        yield sharding.ZERO_NORM(role.name, largest_weight=_largest_trained(role))


def _largest_trained(role: Role) -> int:
    trained = (each for each in role.splits if each.adapter == (role.adapters > 0))
    return max(each.rows * each.width for each in trained)


def at_head_instant(
    scene: Scene, name: str, terms: tuple[Term, ...], *, backward: bool = False
) -> Instant:
    """Further terms at the policy's head during training, beside all that is saved."""
    instant = Instant(name=name, terms=terms)
    return at_head(scene, scene.policy, instant, (), backward=backward)


def moment_of(role: Role) -> Moment:
    """The moment at which a role is updated."""
    return CRITIC_UPDATE.moment if role.value_head else POLICY_UPDATE


def while_saved(
    scene: Scene,
    role: Role,
    kept: tuple[Term, ...],
    done: int = 0,
    *,
    running: bool = True,
    near: int = 1,
) -> Bundles:
    """What is alive from the end of the layers' forward until ``done`` went backward.

    ``running`` says that a layer computes, beside its own input where inputs are offloaded;
    ``near`` inputs of layers are on the GPU then.
    """
    near = near if running else activations.leaf_inputs(role) + near - 1
    return (
        Standing(moment_of(role), "accumulated"),
        activations.all_layers(scene, role, done, near=near),
        positions.micro_batch(scene, role),
        kept,
    )


def after_loss(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Bundles:
    """What is alive when the loss has been scored, and nothing went backward yet."""
    return (
        *while_saved(scene, role, kept, running=False),
        activations.inside_final_norm(scene, role),
        positions.after_scoring(scene, role),
    )


def until_end(scene: Scene, role: Role, kept: tuple[Term, ...], gradients: Gradients) -> Bundles:
    """What is alive from the first layer's backward on, with the gradients made by then."""
    return (
        Standing(moment_of(role), gradients),
        positions.micro_batch(scene, role),
        kept,
    )


def at_head(
    scene: Scene, role: Role, loss: Instant, kept: tuple[Term, ...], *, backward: bool = False
) -> Instant:
    """An instant of the loss, or of its backward, beside all that is alive meanwhile."""
    # After the forward its autocast context has ended: of its copies the head's is saved.
    recomputes = scene.plan.gradient_checkpointing != "none"
    ended = backward or loss.name == logits.RETURNED
    copied = recomputes and not ended
    whole = not casts_tiles(scene, role)
    inside = role.value_head or loss.name in logits.INSIDE_MODEL
    return Instant(
        name=loss.name,
        terms=loss.everything,
        shared=(
            *while_saved(
                scene,
                role,
                kept,
                running=False,
                near=1 if backward else 1 + stashed.at_head(scene, role),
            ),
            *(() if backward else left(scene, role)),
            activations.inside_final_norm(scene, role),
            positions.while_scoring(scene, role, forward=not ended, inside=inside),
            activations.weight_copies(scene, role, layers=copied, head=whole),
            collectives.beside_loss(scene, role, inside, backward=backward, trains=True),
        ),
    )


def _step_temporaries(scene: Scene, role: Role) -> Iterator[Term]:
    plan, q = scene.plan, scene.q
    sizes = {"trainable": scene.sharded_trainable(role), "shards": scene.shards_of("optimizer")}
    if plan.offload not in ("optimizer", "all"):
        if plan.optimizer == "adamw-foreach":
            yield state.FOREACH_TEMPORARY(
                role.name,
                layout=role.trained_layout,
                tensors=role.adapter_tensors,
                value_bytes=q.master_bytes,
                **sizes,
            )
        if plan.optimizer == "sgd" and scene.framework.decays_weights:
            yield state.DECAYED_GRADIENT(
                role.name,
                largest_weight=_largest_trained(role),
                shards=sizes["shards"],
                value_bytes=q.master_bytes,
            )
        if scene.zero_stage:
            yield from _zero_step(scene, role, sizes)
