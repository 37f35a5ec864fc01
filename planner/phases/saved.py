"""What a training forward leaves for the backward, by checkpointing and layer pattern."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.catalog.architecture import Architecture
from planner.footprint import Term
from planner.formulas import state
from planner.formulas.activations import (
    EMBEDDING_DROPOUT,
    autocast_weight_copies,
    checkpointed_saved,
    embeddings_leaf,
    given_tables,
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
    model_saved,
)
from planner.numeric import Num
from planner.phases.layer_kinds import layer_kinds
from planner.phases.role import Role
from planner.phases.scene import Scene

AFTER_LAYERS = ("hidden states", "final norm", "input of the language-model head")
"""Beginnings of the names of what the model saves after its last layer: what the last layer made
first, which a LayerNorm keeps, and an RMSNorm in fp32."""


def all_layers(
    scene: Scene, role: Role, done: int = 0, *, soft_inputs: bool = False, near: int = 1
) -> tuple[Term, ...]:
    """What the layers, and what comes before them, have saved.

    ``done`` layers, from the last one on, have gone backward already. ``soft_inputs`` says
    that gradients flow into the embeddings, so that LoRA's first layer is like the others.
    ``near`` inputs of layers are on the GPU where inputs are offloaded.
    """
    layers = max(role.arch.layers - done, 1)

    def make() -> tuple[Term, ...]:
        before = shared_by_layers(scene, role)
        if scene.plan.gradient_checkpointing == "none":
            return (*_layers(scene, role, layers, soft_inputs), *before)
        leaf = () if soft_inputs else _leaf(scene, role)
        return (*_checkpoints(scene, role, layers, near), *leaf, *before)

    return scene.once(("saved", role.name, done, soft_inputs, near), make)


def shared_by_layers(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Rotary tables and token ids, alive as long as any layer's backward is to come."""
    return scene.once(
        ("shared by layers", role.name),
        lambda: (term for term in _outside(scene, role) if not _after_layers(term)),
    )


def next_input(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What a layer is about to read, before it keeps it."""

    def make() -> Iterator[Term]:
        bare = replace(scene.training_workload(role), trains="none")
        for term in model_saved(role.arch, bare, role=role.name):
            if term.name == "hidden states":
                yield term

    return scene.once(("next input", role.name), make)


def masks(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The attention masks that forward() names while layers run."""

    def make() -> Iterator[Term]:
        bare = replace(scene.training_workload(role), trains="none")
        for term in model_saved(role.arch, bare, role=role.name):
            if term.name.startswith("attention mask"):
                yield term

    return scene.once(("masks", role.name), make)


def final_norm(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What is saved between the last layer and the loss, gone before the layers' backward.

    Its output is among it where all positions are scored at once; see
    :mod:`planner.phases.scored` for those that cut it.
    """
    return scene.once(
        ("final norm", role.name),
        lambda: (term for term in _outside(scene, role) if _after_layers(term)),
    )


def _outside(scene: Scene, role: Role) -> tuple[Term, ...]:
    return model_saved(role.arch, scene.training_workload(role), role=role.name)


def inside_final_norm(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The same without the norm's output, which the loss holds in its own way."""
    outputs: tuple[str, ...] = ("final norm output", "input of the language-model head")
    terms = final_norm(scene, role)
    if not any(term.name in outputs for term in terms):
        # In fp32 Gemma's norm casts nothing back: its fp32 result is the output itself.
        outputs = ("final norm in fp32",)
    return scene.once(
        ("inside final norm", role.name),
        lambda: (term for term in terms if term.name not in outputs),
    )


def _after_layers(term: Term) -> bool:
    return term.name.startswith(AFTER_LAYERS)


def first_layers(scene: Scene, role: Role, layers: int = 1) -> tuple[Term, ...]:
    """What is left when the backward has come down to the first ``layers`` layers."""
    if scene.plan.gradient_checkpointing == "none":
        return _layers(scene, role, layers)
    return (*_checkpoints(scene, role, layers, 1 + leaf_inputs(role)), *_leaf(scene, role))


def _leaf(scene: Scene, role: Role) -> tuple[Term, ...]:
    """GPT-2's leaf, which is no input of a layer; offloaded inputs leave every leaf behind."""
    if scene.plan.activation_offload:
        return ()
    return embeddings_leaf(role.arch, scene.training_workload(role), role=role.name)


def leaf_inputs(role: Role) -> int:
    """1 where the embedding's output stays although layers' inputs are offloaded.

    With LoRA it is a leaf of the graph, so that checkpoints have a gradient to pass on.
    """
    return int(role.adapters > 0)


def layer_forward(scene: Scene, role: Role, sparse: bool | None = None) -> tuple[Term, ...]:
    """What one layer's forward needs beyond what it saves.

    Inside a checkpoint nothing is saved, so all of it passes. ``sparse`` chooses a kind
    of layer where the model has two.
    """
    workload = scene.training_workload(role)
    if scene.plan.gradient_checkpointing == "full":
        workload = replace(workload, trains="none")
    slides = all_slide(role.arch)
    return layer_forward_transient(
        role.arch, workload, role=role.name, sliding=slides, sparse=sparse
    )


def layer_backward(
    scene: Scene, role: Role, sparse: bool | None = None, *, accumulates: Num | None = None
) -> tuple[Term, ...]:
    """What one layer's backward needs: its recomputed activations, gradients in flight.

    ``sparse`` chooses a kind of layer where the model has two. ``accumulates`` says what
    becomes of the layer's weight gradients, as in a workload.
    """
    workload = replace(scene.training_workload(role), accumulates=accumulates)
    slides = all_slide(role.arch)
    recomputed: tuple[Term, ...] = ()
    if scene.plan.gradient_checkpointing == "full":
        recomputed = layer_saved(
            role.arch,
            workload,
            role=role.name,
            layers=1,
            recomputed=True,
            sliding=slides,
            sparse=sparse,
        )
    passing = layer_backward_transient(
        role.arch,
        workload,
        role=role.name,
        sliding=slides,
        sparse=sparse,
        recomputed=scene.plan.gradient_checkpointing == "full",
    )
    return (*recomputed, *passing)


def all_slide(arch: Architecture) -> bool:
    """Whether every layer looks at a window; of two kinds, a layer that looks at all is taken."""
    return bool(arch.sliding_window) and arch.sliding_layers == arch.layers


def weight_copies(scene: Scene, role: Role, *, layers: bool, head: bool) -> tuple[Term, ...]:
    """Half-precision copies of weights that autocast makes of a trained role, by part.

    It caches them until its context ends, with the forward. Where layers save for their own
    backward the layers' are counted with what they save; the head saves its own.
    """
    if scene.precision != "autocast-bf16" or not role.trained:
        return ()
    return scene.once(
        ("copies", role.name, layers, head),
        lambda: autocast_weight_copies(
            role.arch, role=role.name, layers=layers, head=head and not role.value_head
        ),
    )


def cached_copies(scene: Scene, role: Role, *, head: bool) -> tuple[Term, ...]:
    """Those that no layer's saved tensors hold while a training forward runs."""
    recomputes = scene.plan.gradient_checkpointing != "none"
    return weight_copies(scene, role, layers=recomputes, head=head)


def _layers(scene: Scene, role: Role, layers: int, soft_inputs: bool = False) -> tuple[Term, ...]:
    """What autograd keeps of the first ``layers`` layers, by kind.

    Sliding layers come apart, and so does the first layer under LoRA: nothing before it
    trains, so it keeps less.
    """
    arch, workload = role.arch, scene.training_workload(role)
    if arch.measured:
        return tuple(
            term
            for kind in layer_kinds(arch)
            if (count := sum(place < layers for place in kind.places))
            for term in layer_saved(
                arch, workload, role=role.name, layers=count, sparse=kind.sparse
            )
        )
    reached = soft_inputs or not role.adapters
    kinds = _two_kinds if arch.dense_layers else _by_window
    return tuple(
        term
        for count, slides, sparse, first in kinds(arch, layers, reached)
        if count
        for term in layer_saved(
            arch,
            workload,
            role=role.name,
            layers=count,
            sliding=slides,
            sparse=sparse,
            input_needs_gradient=not first,
        )
    )


Counted = tuple[int, bool, bool | None, bool]
"""How many layers, whether they slide, whether they are sparse, whether it is a first layer that
no gradient goes through."""


def _by_window(arch: Architecture, layers: int, reached: bool) -> tuple[Counted, ...]:
    sliding = min(arch.sliding_layers, layers) if arch.sliding_window else 0
    whole, slides = layers - sliding, sliding > 0
    if reached:
        return (whole, False, None, False), (sliding, True, None, False)
    return (
        (whole - (not slides), False, None, False),
        (sliding - slides, True, None, False),
        (1, slides, None, True),
    )


def _two_kinds(arch: Architecture, layers: int, reached: bool) -> tuple[Counted, ...]:
    """The same where some layers are sparse; all of them slide, or none."""
    slides = arch.sliding_layers > 0
    dense = sum(layer < layers for layer in arch.dense_layers)
    first = int(not reached)
    starts_dense = 0 in arch.dense_layers
    return (
        (layers - dense - (first and not starts_dense), slides, True, False),
        (dense - (first and starts_dense), slides, False, False),
        (first, slides, not starts_dense, True),
    )


def _checkpoints(scene: Scene, role: Role, layers: int, near_inputs: int) -> tuple[Term, ...]:
    arch, workload = role.arch, scene.training_workload(role)
    if not scene.plan.activation_offload:
        return checkpointed_saved(arch, workload, role=role.name, layers=layers)
    # Each input is copied as soon as its layer has it, and brought back when the layer is next.
    near = checkpointed_saved(arch, workload, role=role.name, layers=near_inputs)
    far = checkpointed_saved(arch, workload, role=role.name, layers=layers)
    tables = given_tables(arch, workload, role=role.name, layers=layers)
    names = {*(term.name for term in tables), EMBEDDING_DROPOUT}
    host = tuple(
        state.LOCAL_RANKS_OFFLOAD(
            role.name,
            label=f"{term.name}, offloaded",
            host=True,
            ranks_per_node=scene.ranks_per_node,
            rank_bytes=term.bytes,
        )
        for term in far
        if term.name not in names
    )
    # Only what autograd saves of layers is offloaded; tables are arguments of a layer to run again.
    stays = (term for term in near if term.name == EMBEDDING_DROPOUT)
    return (*(term for term in near if term.name not in names), *stays, *tables, *host)
