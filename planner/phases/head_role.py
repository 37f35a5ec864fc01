"""Models that are more or less than a language model: one head alone, or a second one."""

from __future__ import annotations

from dataclasses import replace

from planner.catalog.architecture import Architecture
from planner.phases.role import Role, Split, role


def head_role(arch: Architecture, weight_bytes: int) -> Role:
    """A reference whose hidden states are cached: the frozen head, tied there or not, no layers."""
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


def with_value_head(policy: Role) -> Role:
    """A policy whose body a critic shares: one row of weights and a bias more, always trained."""
    hidden, more = policy.arch.hidden, policy.arch.hidden + 1
    total = policy.parameters + more
    layout = tuple((count, share * policy.parameters / total) for count, share in policy.layout)
    return replace(
        policy,
        parameters=total,
        root_parameters=policy.root_parameters + more,
        layout=(*layout, (1, hidden / total), (1, 1 / total)),
        trainable=policy.trainable + more,
        adapter_tensors=policy.adapter_tensors + 2 * (policy.adapters > 0),
        splits=(
            *policy.splits,
            Split(rows=1, width=hidden, count=1, in_layer=0, per_layer=False),
            Split(rows=1, width=1, count=1, in_layer=0, per_layer=False),
        ),
    )
