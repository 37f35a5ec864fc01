"""Forward, backward and optimizer step of a trained role (policy or critic).

Each phase lists the instants that can own its peak; the estimate takes the highest.
Live memory between two neighbouring instants is linear in the layer that runs, so the
ends are enough: the last layer (everything saved, few gradients) and the first layer
(little saved, all gradients).
"""

from __future__ import annotations

from planner.footprint import Instant, Term
from planner.formulas import logits, sharding, state
from planner.formulas.activations import (
    autocast_weight_copies,
    checkpointed_saved,
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
    model_saved,
)
from planner.formulas.formula import Formula
from planner.methods import gathered
from planner.methods.resident import adapter_bytes, resident
from planner.methods.role import Role
from planner.methods.scene import Moment, Scene
from planner.methods.vocabulary import training_head
from planner.numeric import Num

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
    base = (*_base(scene, role, "accumulated"), *kept)
    saved = _all_saved(scene, role)
    workload = scene.training_workload(role)
    head = training_head(scene, role)
    layer = Instant(
        name="last layer's forward",
        terms=(
            *base,
            *saved,
            *layer_forward_transient(role.arch, workload, role=role.name),
            *gathered.at_layer(scene, role),
        ),
    )
    losses = logits.forward_instants(head, objective=objective(scene, role), role=role.name)
    at_head = (*base, *saved, *gathered.at_head(scene, role, gradient=True))
    return (layer, *(_after(at_head, loss) for loss in losses))


def backward_instants(scene: Scene, role: Role, kept: tuple[Term, ...] = ()) -> tuple[Instant, ...]:
    """Instants of one backward."""
    base = (*_base(scene, role, "accumulated"), *kept)
    saved = _all_saved(scene, role)
    losses = logits.backward_instants(
        training_head(scene, role), objective=objective(scene, role), role=role.name
    )
    at_head = (*base, *saved, *gathered.at_head(scene, role, gradient=True))
    return (
        *(_after(at_head, loss) for loss in losses),
        _last_layer(scene, role, base, saved),
        _first_layer(scene, role, kept),
        _embedding(scene, role, kept),
    )


def optimizer_instants(
    scene: Scene, role: Role, kept: tuple[Term, ...] = ()
) -> tuple[Instant, ...]:
    """The optimizer step: all gradients, all state, and the update's temporaries."""
    temporary: list[Term] = []
    on_host = scene.plan.offload in ("optimizer", "all")
    sizes = {"trainable": role.trainable, "shards": scene.shards_of("optimizer")}
    if not on_host:
        if scene.plan.optimizer == "adamw-foreach":
            temporary.append(
                state.FOREACH_TEMPORARY(
                    role.name,
                    layout=role.trained_layout,
                    tensors=role.adapter_tensors,
                    value_bytes=scene.q.master_bytes,
                    **sizes,
                )
            )
        if scene.zero_stage and scene.plan.dtype != "fp32":
            temporary.append(state.ZERO_STEP_TEMPORARY(role.name, **sizes))
    if scene.zero_stage in (1, 2):
        temporary.append(
            sharding.ZERO_GATHER(
                role.name, trainable=role.trainable, value_bytes=scene.q.compute_bytes
            )
        )
    terms = (*_base(scene, role, "all"), *kept, *temporary)
    return (Instant(name="optimizer step", terms=terms),)


def at_head_instant(scene: Scene, name: str, terms: tuple[Term, ...]) -> Instant:
    """Further terms at the policy's head during training, beside all that is saved."""
    role = scene.policy
    return Instant(
        name=name,
        terms=(
            *_base(scene, role, "accumulated"),
            *_all_saved(scene, role),
            *gathered.at_head(scene, role, gradient=True),
            *terms,
        ),
    )


def _moment(role: Role) -> Moment:
    return "critic update" if role.value_head else "policy update"


def _base(scene: Scene, role: Role, gradients: str) -> tuple[Term, ...]:
    copies: tuple[Term, ...] = ()
    if scene.precision == "autocast-bf16" and gradients != "all":
        copies = autocast_weight_copies(role.arch, role=role.name)
    return (*resident(scene, _moment(role), gradients=gradients), *copies)


def _after(base: tuple[Term, ...], instant: Instant) -> Instant:
    return Instant(name=instant.name, terms=(*base, *instant.terms))


def _saved_of(scene: Scene, role: Role, layers: int) -> tuple[Term, ...]:
    """What autograd keeps of the first ``layers`` layers, sliding ones apart."""
    arch, workload = role.arch, scene.training_workload(role)
    sliding = min(arch.sliding_layers, layers) if arch.sliding_window else 0
    terms: list[Term] = []
    if layers - sliding:
        terms.extend(layer_saved(arch, workload, role=role.name, layers=layers - sliding))
    if sliding:
        terms.extend(layer_saved(arch, workload, role=role.name, layers=sliding, sliding=True))
    return tuple(terms)


def _all_saved(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Everything the forward has left for the backward when it reaches the loss."""
    arch, workload = role.arch, scene.training_workload(role)
    outside = model_saved(arch, workload, role=role.name)
    if scene.plan.gradient_checkpointing == "none":
        return (*_saved_of(scene, role, arch.layers), *outside)
    return (*_checkpoints(scene, role, arch.layers), *outside)


def _checkpoints(scene: Scene, role: Role, layers: int) -> tuple[Term, ...]:
    arch, workload = role.arch, scene.training_workload(role)
    if not scene.plan.activation_offload:
        return checkpointed_saved(arch, workload, role=role.name, layers=layers)
    # Two layers' inputs are on the GPU: the one in use and the one being copied.
    near = checkpointed_saved(arch, workload, role=role.name, layers=min(2, layers))
    far = checkpointed_saved(arch, workload, role=role.name, layers=layers)
    host = tuple(
        state.LOCAL_RANKS_OFFLOAD(
            role.name,
            label=f"{term.name}, offloaded",
            host=True,
            ranks_per_node=scene.ranks_per_node,
            rank_bytes=term.bytes,
        )
        for term in far
    )
    return (*near, *host)


def _last_layer(
    scene: Scene, role: Role, base: tuple[Term, ...], saved: tuple[Term, ...]
) -> Instant:
    """The last layer's backward: everything still saved, the head's gradient just made."""
    terms = [*base, *saved, *_layer_backward(scene, role)]
    if not scene.fsdp and role.root_trainable and not role.arch.tied:
        terms.append(_head_gradient(scene, role))
    if scene.fsdp and role.root_trainable:
        terms.append(
            sharding.ROOT_GRADIENTS(
                role.name,
                root_parameters_trained=role.head_parameters,
                value_bytes=scene.q.compute_bytes,
            )
        )
    return Instant(name="last layer's backward", terms=tuple(terms))


def _head_gradient(scene: Scene, role: Role) -> Term:
    return HEAD_GRADIENT(
        role.name,
        head_parameters=role.head_parameters,
        value_bytes=scene.q.gradient_bytes,
        micro_batches=scene.q.micro_batches,
    )


def _layer_backward(scene: Scene, role: Role) -> tuple[Term, ...]:
    """One layer's backward: recomputed activations, gradients in flight, reductions."""
    arch, workload = role.arch, scene.training_workload(role)
    recomputed: tuple[Term, ...] = ()
    if scene.plan.gradient_checkpointing == "full":
        recomputed = layer_saved(arch, workload, role=role.name, layers=1)
    return (
        *recomputed,
        *layer_backward_transient(arch, workload, role=role.name),
        *gathered.at_layer(scene, role),
        *gathered.reductions_at_layer(scene, role),
        *_being_added(scene, role, role.largest_layer_weight),
    )


def _being_added(scene: Scene, role: Role, largest: int) -> tuple[Term, ...]:
    """A weight gradient beside the sum it is added to; FSDP counts a whole layer instead."""
    if scene.fsdp:
        return ()
    size: Num = largest if not role.adapters else role.layer_adapters
    value = scene.q.compute_bytes if not role.adapters else adapter_bytes(scene)
    return (state.LARGEST_GRADIENT(role.name, largest_weight=size, value_bytes=value),)


def _first_layer(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Instant:
    """The first layer's backward: one layer saved, all other gradients made."""
    saved = (
        _saved_of(scene, role, 1)
        if scene.plan.gradient_checkpointing == "none"
        else _checkpoints(scene, role, 1)
    )
    head = (
        (
            sharding.ROOT_GRADIENTS(
                role.name,
                root_parameters_trained=role.head_parameters,
                value_bytes=scene.q.compute_bytes,
            ),
        )
        if scene.fsdp and role.root_trainable
        else ()
    )
    return Instant(
        name="first layer's backward",
        terms=(
            *_base(scene, role, "all"),
            *_copies(scene, role),
            *kept,
            *saved,
            *_layer_backward(scene, role),
            *head,
        ),
    )


def _copies(scene: Scene, role: Role) -> tuple[Term, ...]:
    if scene.precision != "autocast-bf16":
        return ()
    return autocast_weight_copies(role.arch, role=role.name)


def _embedding(scene: Scene, role: Role, kept: tuple[Term, ...]) -> Instant:
    """The end of the backward: the embedding's dense gradient, the root's reduction."""
    dense = (
        (
            logits.embedding_backward(
                vocab=role.arch.vocab,
                hidden=role.arch.hidden,
                value_bytes=scene.q.compute_bytes,
                role=role.name,
            ),
        )
        if role.root_trainable and not scene.fsdp
        else ()
    )
    return Instant(
        name="embedding's backward",
        terms=(
            *_base(scene, role, "all"),
            *_copies(scene, role),
            *kept,
            *dense,
            *(gathered.root(scene, role) if scene.fsdp else ()),
            *gathered.reductions_at_end(scene, role),
        ),
    )
