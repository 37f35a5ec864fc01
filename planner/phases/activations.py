"""What a training forward leaves for the backward, by checkpointing and layer pattern."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from planner.catalog.architecture import Architecture
from planner.formulas.activations.layers import (
    LAYER_INPUT,
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
)
from planner.formulas.activations.model import (
    EMBEDDING_DROPOUT,
    adapter_copies,
    autocast_weight_copies,
    checkpointed_saved,
    embeddings_leaf,
    given_tables,
    model_saved,
)
from planner.formulas.activations.workload import Workload
from planner.numeric import Num, maximum
from planner.phases import host
from planner.phases.layer_kinds import layer_kinds
from planner.phases.role import Role
from planner.phases.scene import Scene, once, shared
from planner.term import Term

AFTER_LAYERS = ("hidden states", "final norm", "input of the language-model head")
"""Beginnings of the names of what the model saves after its last layer: what the last layer made
first, which a LayerNorm keeps, and an RMSNorm in fp32."""


@shared
def all_layers(
    scene: Scene, role: Role, done: int = 0, *, soft_inputs: bool = False, near: int = 1
) -> Iterator[Term]:
    """What the layers, and what comes before them, have saved.

    ``done`` layers, from the last one on, have gone backward already. ``soft_inputs`` says
    that gradients flow into the embeddings, so that LoRA's first layer is like the others.
    ``near`` inputs of layers are on the GPU where inputs are offloaded.
    """
    layers = max(role.arch.layers - done, 1)
    if scene.plan.gradient_checkpointing == "none":
        yield from _saved(scene, role, layers, soft_inputs)
    else:
        yield from _checkpoints(scene, role, layers, near)
        if not soft_inputs:
            yield from _leaf(scene, role)
    yield from shared_by_layers(scene, role)


@shared
def shared_by_layers(scene: Scene, role: Role) -> Iterable[Term]:
    """Rotary tables and token ids, alive as long as any layer's backward is to come."""
    return (term for term in _outside(scene, role) if not term.name.startswith(AFTER_LAYERS))


@shared
def next_input(scene: Scene, role: Role) -> Iterable[Term]:
    """What a layer is about to read, before it keeps it."""
    return (term for term in _outside(scene, role, saves=False) if term.name == "hidden states")


@shared
def masks(scene: Scene, role: Role) -> Iterable[Term]:
    """The attention masks that forward() names while layers run."""
    outside = _outside(scene, role, saves=False)
    return (term for term in outside if term.name.startswith("attention mask"))


@shared
def final_norm(scene: Scene, role: Role) -> Iterable[Term]:
    """What is saved between the last layer and the loss, gone before the layers' backward.

    Its output is among it where all positions are scored at once; see
    :mod:`planner.phases.positions` for those that cut it.
    """
    return (term for term in _outside(scene, role) if term.name.startswith(AFTER_LAYERS))


@once
def _outside(scene: Scene, role: Role, *, saves: bool = True) -> tuple[Term, ...]:
    workload = scene.training_workload(role) if saves else _saving_nothing(scene, role)
    return model_saved(role.arch, workload, role=role.name)


@once
def _saving_nothing(scene: Scene, role: Role) -> Workload:
    """The training forward as it runs inside a checkpoint, or before anything is saved."""
    return replace(scene.training_workload(role), trains="none")


@shared
def inside_final_norm(scene: Scene, role: Role) -> Iterable[Term]:
    """The same without the norm's output, which the loss holds in its own way."""
    outputs: tuple[str, ...] = ("final norm output", "input of the language-model head")
    terms = final_norm(scene, role)
    if not any(term.name in outputs for term in terms):
        # In fp32 Gemma's norm casts nothing back: its fp32 result is the output itself.
        outputs = ("final norm in fp32",)
    return (term for term in terms if term.name not in outputs)


def first_layers(scene: Scene, role: Role, layers: int = 1) -> Iterator[Term]:
    """What is left when the backward has come down to the first ``layers`` layers."""
    if scene.plan.gradient_checkpointing == "none":
        yield from _saved(scene, role, layers)
    else:
        yield from _checkpoints(scene, role, layers, 1 + leaf_inputs(role))
        yield from _leaf(scene, role)


def _leaf(scene: Scene, role: Role) -> tuple[Term, ...]:
    """GPT-2's leaf, which is no input of a layer; offloaded inputs leave every leaf behind."""
    if scene.plan.activation_offload:
        return ()
    return embeddings_leaf(role.arch, scene.training_workload(role), role=role.name)


def _saved(scene: Scene, role: Role, layers: int, soft_inputs: bool = False) -> Iterator[Term]:
    """What the first ``layers`` layers keep, and the leaf below them where there is one."""
    found = tuple(_layers(scene, role, layers, soft_inputs))
    yield from found
    if embeds_with_gradient(scene, role) and not soft_inputs:
        kept = any(term.name == LAYER_INPUT for term in found)
        workload = scene.training_workload(role)
        yield from embeddings_leaf(role.arch, workload, role=role.name, kept=kept)


def embeds_with_gradient(scene: Scene, role: Role) -> bool:
    """Whether gradients go through all layers, to an embedding's output that is a leaf."""
    return role.adapters > 0 and scene.framework.embeds_with_gradient


def leaf_inputs(role: Role) -> int:
    """1 where the embedding's output stays although layers' inputs are offloaded.

    With LoRA it is a leaf of the graph, so that checkpoints have a gradient to pass on.
    """
    return int(role.adapters > 0)


def layer_forward(scene: Scene, role: Role, sparse: int | None = None) -> tuple[Term, ...]:
    """What one layer's forward needs beyond what it saves.

    Inside a checkpoint nothing is saved, so all of it passes. ``sparse`` chooses a kind
    of layer where the model has two.
    """
    whole = scene.plan.gradient_checkpointing == "full"
    workload = _saving_nothing(scene, role) if whole else scene.training_workload(role)
    slides = all_slide(role.arch)
    return layer_forward_transient(
        role.arch, workload, role=role.name, sliding=slides, sparse=sparse
    )


def layer_backward(
    scene: Scene, role: Role, sparse: int | None = None, *, accumulates: Num | None = None
) -> Iterator[Term]:
    """What one layer's backward needs: its recomputed activations, gradients in flight.

    ``sparse`` chooses a kind of layer where the model has two. ``accumulates`` says what
    becomes of the layer's weight gradients, as in a workload.
    """
    workload = replace(scene.training_workload(role), accumulates=accumulates)
    again = scene.plan.gradient_checkpointing == "full"
    kind: dict[str, Any] = {"sliding": all_slide(role.arch), "sparse": sparse, "recomputed": again}
    if again:
        yield from layer_saved(role.arch, workload, role=role.name, layers=1, **kind)
    yield from layer_backward_transient(role.arch, workload, role=role.name, **kind)


def all_slide(arch: Architecture) -> bool:
    """Whether every layer looks at a window; of two kinds, a layer that looks at all is taken."""
    return bool(arch.sliding_window) and arch.sliding_layers == arch.layers


@shared
def weight_copies(scene: Scene, role: Role, *, layers: bool, head: bool) -> tuple[Term, ...]:
    """Half-precision copies of weights that autocast makes of a trained role, by part.

    It caches them until its context ends, with the forward. Where layers save for their own
    backward the layers' are counted with what they save; the head saves its own.
    """
    precision = scene.precision
    requires = scene.setup[role.name].requires_gradients
    frozen = role.answers_frozen and not requires
    if role.adapters and precision == "autocast-bf16":
        # A frozen weight's copy is in no cache: the head's is kept for the pass back through it.
        trained = scene.setup.adapters_in_fp32 and not (role.disabled or frozen)
        return (
            *adapter_copies(role.linear_adapters * (layers and trained), role=role.name),
            *autocast_weight_copies(
                role.arch, role=role.name, head=head and not role.value_head
            ),
        )
    if scene.setup.autocasts_forwards and role.adapters and not role.disabled:
        return adapter_copies(role.linear_adapters * (layers and not frozen), role=role.name)
    caches = role.trained or requires
    if precision != "autocast-bf16" or not caches:
        return ()
    head = head and not role.value_head
    return autocast_weight_copies(role.arch, role=role.name, layers=layers, head=head)


def frozen_head_copy(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Autocast's copy of a frozen head, in no cache: each use of the head makes its own."""
    return weight_copies(scene, role, layers=False, head=True) if role.adapters else ()


def _layers(scene: Scene, role: Role, layers: int, soft_inputs: bool = False) -> Iterator[Term]:
    """What autograd keeps of the first ``layers`` layers, by kind.

    Sliding layers come apart, and so does the first layer under LoRA: nothing before it
    trains, so it keeps less.
    """
    arch, workload = role.arch, scene.training_workload(role)
    first = int(role.adapters > 0 and not soft_inputs and not embeds_with_gradient(scene, role))
    for count, slides, sparse, begins in _counted(arch, layers, first):
        if count:
            yield from layer_saved(
                arch,
                workload,
                role=role.name,
                layers=count,
                sliding=slides,
                sparse=sparse,
                input_needs_gradient=not begins,
            )


Counted = tuple[int, bool, int | None, bool]
"""How many layers, whether they slide, whether they are sparse, whether it is a first layer that
no gradient goes through."""


def _counted(arch: Architecture, layers: int, first: int) -> Iterator[Counted]:
    """The first ``layers`` layers; ``first`` is 1 where the first of all comes apart."""
    if arch.measured:
        for kind in layer_kinds(arch):
            yield sum(place < layers for place in kind.places), False, kind.sparse, False
    elif arch.dense_layers:
        # All of them slide, or none.
        slides, starts_dense = arch.sliding_layers > 0, 0 in arch.dense_layers
        dense = sum(layer < layers for layer in arch.dense_layers)
        yield layers - dense - (first and not starts_dense), slides, True, False
        yield dense - (first and starts_dense), slides, False, False
        yield first, slides, not starts_dense, True
    else:
        sliding = min(arch.sliding_layers, layers) if arch.sliding_window else 0
        slides = sliding > 0
        yield layers - sliding - (first and not slides), False, None, False
        yield sliding - (first and slides), True, None, False
        yield first, slides, None, True


def _checkpoints(scene: Scene, role: Role, layers: int, near_inputs: int) -> Iterator[Term]:
    arch, workload, name = role.arch, scene.training_workload(role), role.name
    far = checkpointed_saved(arch, workload, role=name, layers=layers)
    if not scene.plan.activation_offload:
        yield from far
        return
    # Only what autograd saves of layers is offloaded; tables are arguments of a layer to run again.
    tables = given_tables(arch, workload, role=name, layers=layers)
    stay = {EMBEDDING_DROPOUT, *(term.name for term in tables)}
    # Each input is copied as soon as its layer has it, and brought back when the layer is next.
    for term in checkpointed_saved(arch, workload, role=name, layers=near_inputs):
        if term.name not in stay or term.name == EMBEDDING_DROPOUT:
            yield term
    yield from tables
    for term in far:
        if term.name not in stay:
            label = f"{term.name}, offloaded"
            if "activations" in scene.framework.pinned:
                each = ((term.tensors, 1 / maximum(term.tensors, 1)),)
                yield host.offloaded(scene, name, label, term.bytes, each)
            else:
                yield scene.offloaded(name, label, term.bytes)
