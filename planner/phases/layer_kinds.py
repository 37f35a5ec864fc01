"""Where the kinds of a model's layers stand: sparse layers among dense ones, or all alike.

What a layer needs is linear in its place as long as all are alike, so the ends are the
instants to look at; with two kinds those are the ends of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from planner.catalog import measured
from planner.catalog.architecture import Architecture
from planner.formulas.activations.measured import kinds_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """One kind of layer: its places, by index."""

    sparse: int | None
    """Whether its layers have experts; None where all layers are alike. Measured models may have
    more kinds and for other reasons, which count from 0."""
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
    if arch.measured:
        # MLPs and experts, or forms of attention, as the coefficients tell them apart.
        kinds: Sequence[str] = kinds_of(arch)
    else:
        kinds = [str(int(layer not in arch.dense_layers)) for layer in range(arch.layers)]
        if not arch.sparse_layers:
            kinds = "0" * arch.layers
    found = sorted(set(kinds))
    words: Sequence[str] = ("dense ", "sparse ")
    if arch.measured and arch.stateful_layers:
        words = ("linear-attention ", "full-attention ")
    elif arch.measured and arch.sliding_layers:
        words = ("sliding ", "global ")
    if arch.measured:
        words = measured.entry(arch.measured).get("words", words)
    alone = len(found) == 1
    return tuple(
        LayerKind(
            sparse=None if alone else index,
            word="" if alone else words[index],
            places=tuple(place for place, one in enumerate(kinds) if one == kind),
        )
        for index, kind in enumerate(found)
    )
