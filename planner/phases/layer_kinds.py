"""Where the kinds of a model's layers stand: sparse layers among dense ones, or all alike.

What a layer needs is linear in its place as long as all are alike, so the ends are the
instants to look at; with two kinds those are the ends of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from planner.catalog.architecture import Architecture
from planner.formulas.activations.measured import kinds_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """One kind of layer: its places, by index."""

    sparse: bool | None
    """None where all layers are alike. Measured models may have two kinds for another reason
    than experts; the second one counts as sparse."""
    word: str
    """What a person reads before ``layer``; empty where all are alike."""
    places: tuple[int, ...]

    @property
    def first(self) -> int:
        """The lowest layer of the kind."""
        return self.places[0]

    @property
    def last(self) -> int:
        """The highest layer of the kind."""
        return self.places[-1]


@lru_cache(maxsize=256)
def layer_kinds(arch: Architecture) -> tuple[LayerKind, ...]:
    """Every kind that the model has."""
    everywhere = tuple(range(arch.layers))
    if arch.measured:
        return _measured(arch)
    if not arch.dense_layers or not arch.sparse_layers:
        return (LayerKind(sparse=None, word="", places=everywhere),)
    dense = arch.dense_layers
    sparse = tuple(layer for layer in everywhere if layer not in dense)
    return (
        LayerKind(sparse=False, word="dense ", places=dense),
        LayerKind(sparse=True, word="sparse ", places=sparse),
    )


def _measured(arch: Architecture) -> tuple[LayerKind, ...]:
    """Kinds as the coefficients tell them apart: MLPs and experts, or forms of attention."""
    digits = kinds_of(arch)
    found = sorted(set(digits))
    if len(found) == 1:
        return (LayerKind(sparse=None, word="", places=tuple(range(arch.layers))),)
    words = ("dense ", "sparse ")
    if arch.stateful_layers:
        words = ("linear-attention ", "full-attention ")
    elif arch.sliding_layers:
        words = ("sliding ", "global ")
    return tuple(
        LayerKind(
            sparse=bool(index),
            word=words[index],
            places=tuple(n for n, digit in enumerate(digits) if digit == kind),
        )
        for index, kind in enumerate(found)
    )
