"""The backward of a trained role: the instants that can own its peak.

Live memory between two neighbouring instants is linear in the layer that runs, so the
ends are enough: the last layer (everything saved, few gradients) and the first layer
(little saved, all other gradients); FSDP adds the layer before the last, the first to
run beside a reduction.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas import allocator, logits, state
from planner.formulas.activations.model import final_norm_backward
from planner.formulas.parameters import layers_parameter_count
from planner.numeric import Num
from planner.phases import (
    activations,
    collectives,
    gathered,
    reductions,
    shared_critic,
    stashed,
    units,
    zero,
)
from planner.phases.baseline import adapter_bytes
from planner.phases.layer_kinds import LayerKind, layer_kinds
from planner.phases.role import Role
from planner.phases.root_gradients import (
    cast_instants,
    end_instants,
    head_gradient,
    head_reduced,
    late_head_gradient,
    tied_instants,
)
from planner.phases.scene import Scene, shared
from planner.phases.training import (
    Bundles,
    after_loss,
    at_head,
    objective,
    until_end,
    while_saved,
    with_terms,
)
from planner.phases.vocabulary import training_head
from planner.setup.workload import compile_breaks
from planner.term import Instant, Term

ARRIVE_AGAIN = "root's all-gather again"
"""FSDP's first instant of a backward."""


def backward_instants(scene: Scene, role: Role, kept: tuple[Term, ...] = ()) -> tuple[Instant, ...]:
    """Instants of one backward."""
    head = training_head(scene, role)
    losses = logits.backward_instants(head, objective=objective(scene, role), role=role.name)
    idle = (*_freed_logits(scene, role, head), *shared_critic.waiting(scene, role))
    return (
        *_weights_arrive(scene, role, kept),
        *shared_critic.backward_instants(scene, role, kept, _kept_by_scoring(scene, role)),
        *(at_head(scene, role, with_terms(loss, idle), kept, backward=True) for loss in losses),
        *_layers_arrive(scene, role, kept, losses),
        *cast_instants(scene, role, kept),
        *head_reduced(scene, role, kept),
        *_final_norm(scene, role, kept),
        *_last_layers(scene, role, kept),
        *_first_layers(scene, role, kept),
        *tied_instants(scene, role, kept),
        *end_instants(scene, role, kept),
    )


def _weights_arrive(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """FSDP gathers the root again before the head goes backward, beside what scoring kept."""
    arriving = collectives.again(scene, role)
    if arriving:
        beside = (_kept_by_scoring(scene, role), shared_critic.kept(scene, role))
        yield Instant(
            name=ARRIVE_AGAIN,
            terms=arriving,
            shared=(*after_loss(scene, role, kept), *beside),
        )


def _layers_arrive(
    scene: Scene, role: Role, kept: tuple[Term, ...], losses: tuple[Instant, ...]
) -> Iterator[Instant]:
    """FSDP2 gathers layers again, each beside the one that goes backward, or the head.

    Below adapters no gradients of weights hide what the gathering takes.
    """
    if not (scene.spreads(role) and role.adapters) or gathered.layers_stay(scene, role):
        return
    arriving, last = gathered.arriving_layer(scene, role), role.arch.layers - 1
    if units.head_stays(scene):
        for loss in losses:
            if loss.name == logits.HEAD_BACKWARD:
                beside = at_head(scene, role, with_terms(loss, arriving), kept, backward=True)
                yield beside._replace(name="last layer's all-gather again")
    yield Instant(
        name="a layer's all-gather again",
        terms=(*collectives.at_layer(scene, role, backward_of=last), *arriving),
        shared=while_saved(scene, role, kept),
    )


def _kept_by_scoring(scene: Scene, role: Role) -> tuple[Term, ...]:
    head = training_head(scene, role)
    if not role.value_head and head.way.outside_model and head.logits == "full":
        # By then the loss has gone backward.
        return logits.kept_of_output(head.of(role.name))
    if role.value_head or not head.way.as_named:
        return ()
    return logits.scoring_kept(head, role=role.name)


def _final_norm(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The final norm's backward: as wide as a layer's, and the head's gradient just made."""
    passing = final_norm_backward(role.arch, scene.training_workload(role), role=role.name)
    place = role.arch.layers
    for name, reducing in (("final norm's backward", ()), *zero.reducing(scene, role, place)):
        yield Instant(
            name=name,
            terms=(
                *passing,
                *head_gradient(scene, role),
                *collectives.above_layers(scene, role),
                *reductions.reduced_head(scene, role),
                *zero.meanwhile(scene, role, place),
                *reducing,
            ),
            shared=while_saved(scene, role, kept, running=False),
        )


def _freed_logits(scene: Scene, role: Role, head: logits.Head) -> Iterator[Term]:
    """The segment that upcast logits leave behind; expandable segments reuse it."""
    materialised = head.logits in ("full", "response") and not role.value_head
    if materialised and head.upcasts and not scene.plan.expandable_segments:
        yield allocator.FREED_LOGITS(
            role.name, item_bytes=head.item_bytes, tokens=head.tokens, vocab=head.vocab
        )


def _last_layers(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The last layer's backward: everything still saved, the head's gradient just made.

    Where layers are of two kinds, the last of each: either may need more. Under FSDP the layer
    before the last as well, the first to run beside a reduction.
    """
    before = []
    for kind in layer_kinds(role.arch):
        yield _coming_down(scene, role, kept, kind, kind.last, f"last {kind.word}layer's backward")
        if scene.fsdp and kind.last == role.arch.layers - 1 and len(kind.places) > 1:
            before.append(kind)
    for kind in layer_kinds(role.arch):
        for place in zero.places(scene, role) & {*kind.places}:
            for name, reducing in zero.reducing(scene, role, place):
                yield with_terms(_coming_down(scene, role, kept, kind, place, name), reducing)
    for kind in before:
        name = f"{kind.word}backward overlapping reduce-scatter"
        yield _coming_down(scene, role, kept, kind, kind.places[-2], name)
    if scene.fsdp and not gathered.flat(scene):
        yield from _reduced_last(scene, role, kept)


def _reduced_last(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The last layer has gone backward: FSDP2 copies its gradients together, and reduces them.

    No other layer's gradients are being reduced, and its weights are sharded again.
    """
    of_head, layers = units.trained_of_head(scene, role), role.arch.layers
    above = () if of_head else tuple(head_gradient(scene, role))
    for name, reduced in (
        ("last layer's gradients copied together", reductions.layer_copied(scene, role)),
        ("last layer's gradients reduced", reductions.layer_reduced(scene, role)),
    ):
        yield Instant(
            name=name,
            terms=(*above, *reduced, *collectives.below(scene, role, layers - 1)),
            shared=while_saved(scene, role, kept, 1),
        )


def _coming_down(
    scene: Scene, role: Role, kept: tuple[Term, ...], kind: LayerKind, place: int, name: str
) -> Instant:
    """A layer near the top goes backward; FSDP reduces the one above beside it."""
    done = role.arch.layers - 1 - place
    above: tuple[Term, ...] = ()
    of_head = units.trained_of_head(scene, role)
    if (done and (kind.word or scene.fsdp)) or of_head:
        higher = state.UPPER_LAYERS(
            role.name,
            tensors=done + 2 * bool(of_head),
            trainable_above=_trained_between(role, place + 1, role.arch.layers) + of_head,
            **_gradient_sizes(scene),
        )
        waiting = (higher,) if scene.keeps_gradients and not scene.zero_stage > 1 else ()
        above = (
            *waiting,
            *_reduced_above(scene, role, place + 1),
            *reductions.held_for_all_reduce(scene, role, done),
        )
    # LoRA's embeddings beside the input of the running layer, where inputs are offloaded.
    leaf = scene.plan.activation_offload and role.adapters
    return Instant(
        name=name,
        terms=(*(() if of_head else head_gradient(scene, role)), *above),
        shared=(
            *while_saved(scene, role, kept, done),
            *((activations.next_input(scene, role),) if leaf else ()),
            stashed.brought_back(scene, role, of_norm=not done),
            *_layer_backward(scene, role, place, kind.sparse),
        ),
    )


def _reduced_above(scene: Scene, role: Role, place: int) -> Iterator[Term]:
    """What the layers from ``place`` on have given back of gradients that were whole."""
    if scene.whole_gradient_bytes:
        yield state.REDUCED_ABOVE(
            role.name,
            trainable_above=_trained_between(role, place, role.arch.layers)
            + units.trained_of_head(scene, role),
            whole_bytes=scene.whole_gradient_bytes,
            **_gradient_sizes(scene),
        )


def _first_layers(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The first layer's backward: one layer saved, all other layers' gradients made.

    Where layers are of two kinds, the first of each kind: either may need more. Under FSDP the
    second one too, beside which the first one's weights arrive.
    """
    for kind in layer_kinds(role.arch):
        yield _near_the_end(scene, role, kept, kind, kind.first, f"first {kind.word}layer")
        if scene.fsdp and kind.places[:2] == (0, 1):
            yield _near_the_end(scene, role, kept, kind, 1, f"second {kind.word}layer")


def _near_the_end(
    scene: Scene, role: Role, kept: tuple[Term, ...], kind: LayerKind, place: int, name: str
) -> Instant:
    # The layer's own gradients are counted with its backward.
    to_come = place + _counts_weights(scene, role)
    lower = state.LOWER_LAYERS(
        role.name,
        tensors=to_come,
        trainable_below=_trained_between(role, 0, to_come),
        **_gradient_sizes(scene),
    )
    return Instant(
        name=f"{name}'s backward",
        terms=(
            *activations.first_layers(scene, role, place + 1),
            *late_head_gradient(scene, role),
            *((lower,) if to_come and scene.keeps_gradients and scene.zero_stage < 2 else ()),
            *reductions.held_for_all_reduce(scene, role, role.arch.layers - 1 - place),
        ),
        shared=(
            *until_end(scene, role, kept, "layers"),
            stashed.brought_back(scene, role, of_norm=role.arch.layers - 1 == place),
            activations.shared_by_layers(scene, role),
            *_layer_backward(scene, role, place, kind.sparse),
        ),
    )


def _gradient_sizes(scene: Scene) -> dict[str, Num]:
    return {
        "shards": scene.shards_of("gradients"),
        "value_bytes": scene.q.gradient_bytes,
        "micro_batches": scene.q.micro_batches,
    }


def _trained_between(role: Role, first: int, end: int) -> int:
    if role.adapters:
        return role.layer_adapters * (end - first)
    return layers_parameter_count(role.arch, range(first, end))


def _layer_backward(scene: Scene, role: Role, place: int, sparse: int | None) -> Bundles:
    """The backward of the layer at ``place``: recomputed activations, gradients, reductions."""
    last, counted = place == role.arch.layers - 1, _counts_weights(scene, role)
    return (
        _activations(scene, role, sparse),
        (
            *collectives.at_layer(scene, role, backward_of=place),
            *reductions.at_layer(scene, role, first=last, whole=not counted),
            *zero.meanwhile(scene, role, place),
            *_being_added(scene, role),
        ),
    )


@shared
def _activations(scene: Scene, role: Role, sparse: int | None) -> Iterator[Term]:
    accumulates: Num | None = None
    if _counts_weights(scene, role):
        accumulates = 0 if scene.fsdp else scene.passes_on
    return activations.layer_backward(scene, role, sparse, accumulates=accumulates)


def _counts_weights(scene: Scene, role: Role) -> bool:
    """Whether a layer's backward counts its weight gradients one by one, as they are made.

    A compiled layer's come out together; ZeRO's buckets take them over.
    """
    compiled = scene.plan.compile and not compile_breaks(scene.plan, scene.plan.attention)
    return not (compiled or scene.zero_stage)


def _being_added(scene: Scene, role: Role) -> Iterator[Term]:
    """A weight gradient beside the sum it is added to; FSDP counts a whole layer instead."""
    if not (scene.fsdp or role.arch.measured or _counts_weights(scene, role)):
        yield state.LARGEST_GRADIENT(
            role.name,
            largest_weight=role.layer_adapters if role.adapters else role.largest_layer_weight,
            value_bytes=adapter_bytes(scene) if role.adapters else scene.q.compute_bytes,
            passes_on=scene.passes_on,
        )
