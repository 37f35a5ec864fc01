"""A reference that is its language-model head alone, since its hidden states are cached."""

from __future__ import annotations

from dataclasses import replace

from planner.catalog.architecture import Architecture
from planner.methods.role import Role, Split, role


def head_role(arch: Architecture, weight_bytes: int) -> Role:
    """The frozen head of a model, tied to its embedding there or not: one matrix, no layers."""
    elements = arch.vocab * arch.hidden
    return replace(
        role("reference", arch, weight_bytes=weight_bytes, trained=False),
        parameters=elements,
        layer_parameters=0,
        root_parameters=elements,
        head_parameters=elements,
        largest_weight=elements,
        largest_layer_weight=0,
        layout=((1, 1.0),),
        splits=(Split(rows=arch.vocab, width=arch.hidden, count=1, in_layer=0, per_layer=False),),
    )
