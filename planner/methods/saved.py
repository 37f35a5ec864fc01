"""What a training forward leaves for the backward, by checkpointing and layer pattern."""

from __future__ import annotations

from dataclasses import replace

from planner.footprint import Term
from planner.formulas import state
from planner.formulas.activations import (
    autocast_weight_copies,
    checkpointed_saved,
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
    model_saved,
)
from planner.methods.role import Role
from planner.methods.scene import Scene

AFTER_LAYERS = ("final norm", "input of the language-model head")
"""Beginnings of the names of what the model saves after its last layer."""


def all_layers(scene: Scene, role: Role, done: int = 0) -> tuple[Term, ...]:
    """What the layers, and what comes before them, have saved.

    ``done`` layers, from the last one on, have gone backward already.
    """
    layers = max(role.arch.layers - done, 1)

    def make() -> tuple[Term, ...]:
        before = (term for term in _outside(scene, role) if not _after_layers(term))
        if scene.plan.gradient_checkpointing == "none":
            return (*_layers(scene, role, layers), *before)
        return (*_checkpoints(scene, role, layers), *before)

    return scene.once(("saved", role.name, done), make)


def final_norm(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What is saved between the last layer and the loss, gone before the layers' backward."""
    return scene.once(
        ("final norm", role.name),
        lambda: (term for term in _outside(scene, role) if _after_layers(term)),
    )


def _outside(scene: Scene, role: Role) -> tuple[Term, ...]:
    return model_saved(role.arch, scene.training_workload(role), role=role.name)


def _after_layers(term: Term) -> bool:
    return term.name.startswith(AFTER_LAYERS)


def first_layer(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What is left when the backward reaches the first layer."""
    if scene.plan.gradient_checkpointing == "none":
        return _layers(scene, role, 1)
    return _checkpoints(scene, role, 1)


def layer_forward(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What one layer's forward needs beyond what it saves.

    Inside a checkpoint nothing is saved, so all of it passes.
    """
    workload = scene.training_workload(role)
    if scene.plan.gradient_checkpointing == "full":
        workload = replace(workload, trains="none", lora_rank=0, lora_targets=())
    return layer_forward_transient(role.arch, workload, role=role.name)


def layer_backward(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What one layer's backward needs: its recomputed activations, gradients in flight."""
    workload = scene.training_workload(role)
    recomputed: tuple[Term, ...] = ()
    if scene.plan.gradient_checkpointing == "full":
        recomputed = layer_saved(role.arch, workload, role=role.name, layers=1, recomputed=True)
    return (*recomputed, *layer_backward_transient(role.arch, workload, role=role.name))


def weight_copies(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Half-precision copies of the weights that autocast keeps through a forward."""
    if scene.precision != "autocast-bf16":
        return ()
    recomputes = scene.plan.gradient_checkpointing != "none"
    return scene.once(
        ("copies", role.name),
        lambda: autocast_weight_copies(role.arch, role=role.name, all_layers=recomputes),
    )


def _layers(scene: Scene, role: Role, layers: int) -> tuple[Term, ...]:
    """What autograd keeps of the first ``layers`` layers, by kind.

    Sliding layers come apart, and so does the first layer under LoRA: nothing before it
    trains, so it keeps less.
    """
    arch, workload = role.arch, scene.training_workload(role)
    sliding = min(arch.sliding_layers, layers) if arch.sliding_window else 0
    whole = layers - sliding
    kinds = [(whole, False, True), (sliding, True, True)]
    if role.adapters:
        slides = sliding > 0
        kinds = [
            (whole - (not slides), False, True),
            (sliding - slides, True, True),
            (1, slides, False),
        ]
    return tuple(
        term
        for count, slides, reached in kinds
        if count
        for term in layer_saved(
            arch,
            workload,
            role=role.name,
            layers=count,
            sliding=slides,
            input_needs_gradient=reached,
        )
    )


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
