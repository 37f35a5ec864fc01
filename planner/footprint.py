"""What every rung of evidence answers with: terms, instants, phases, footprint, verdict.

Pure data; imports :mod:`planner.numeric` and :mod:`planner.units` only. Values are
``int`` for one plan and arrays for a sweep; see :data:`planner.numeric.Num`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.numeric import Num, total

Category = Literal[
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "logits",
    "kv-cache",
    "engine",
    "buffers",
    "device",
]

CATEGORIES: tuple[Category, ...] = (
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "logits",
    "kv-cache",
    "engine",
    "buffers",
    "device",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One named quantity: its bytes, and all a person needs to check them.

    ``tensors`` is the number of storages the bytes are spread over (the allocator
    rounds each of them); ``host`` marks bytes of host RAM instead of GPU memory.
    """

    name: str
    role: str
    category: Category
    bytes: Num
    formula: str
    inputs: Mapping[str, Num]
    source: str
    ignores: str = ""
    tensors: Num = 1
    host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """A moment inside a phase and every term alive at it."""

    name: str
    terms: tuple[Term, ...]

    @property
    def requested_bytes(self) -> Num:
        """GPU bytes asked for by all live tensors."""
        return total([term.bytes for term in self.terms if not term.host])

    @property
    def host_bytes(self) -> Num:
        """Host RAM of all our processes on one node."""
        return total([term.bytes for term in self.terms if term.host])
