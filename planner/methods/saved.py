"""What a training forward leaves for the backward, by checkpointing and layer pattern."""

from __future__ import annotations

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


def everything(scene: Scene, role: Role) -> tuple[Term, ...]:
    """All that is saved when the forward reaches the loss."""

    def make() -> tuple[Term, ...]:
        workload = scene.training_workload(role)
        outside = model_saved(role.arch, workload, role=role.name)
        if scene.plan.gradient_checkpointing == "none":
            return (*_layers(scene, role, role.arch.layers), *outside)
        return (*_checkpoints(scene, role, role.arch.layers), *outside)

    return scene.once(("saved", role.name), make)


def first_layer(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What is left when the backward reaches the first layer."""
    if scene.plan.gradient_checkpointing == "none":
        return _layers(scene, role, 1)
    return _checkpoints(scene, role, 1)


def layer_forward(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What one layer's forward needs beyond what it saves."""
    return layer_forward_transient(role.arch, scene.training_workload(role), role=role.name)


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
