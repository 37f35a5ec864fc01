"""One thing to time, and the sizes at which a card or a processor times it. No torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from planner.catalog.card_benchmark import Part, Peak
from planner.units import GIB, MIB

Run = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row to measure. ``make`` puts the tensors on the device and returns what is timed."""

    part: Part
    name: str
    make: Callable[[], Run]
    sizes: dict[str, int] = field(default_factory=dict)
    model: str = ""
    dtype: str = ""
    flops: float | None = None
    """Of one run."""
    moved_bytes: int | None = None
    """Read and written by one run."""
    of: Peak | None = None
    """The peak that its rate is a share of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large everything is. The first model is the one whose rows always run."""

    models: tuple[str, ...]
    """Of the catalog: their layers and heads are measured."""
    tokens: tuple[int, ...]
    """Positions of one forward."""
    row_tokens: int
    """Positions of one row, which attention does not leave."""
    head_tokens: int
    """Positions that meet the vocabulary; its time is led in a straight line to all."""
    attention_tokens: tuple[int, ...]
    """Row lengths of attention alone, over ``attention_positions`` in all."""
    attention_positions: int
    copy_bytes: int
    optimizer_values: int
    decode_sequences: tuple[int, ...]
    cache_sequences: int
    cache_tokens: int
    host_bytes: int
    generate_layers: int
    generate_tokens: tuple[int, int]


CARD = Sizes(
    models=("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-32B"),
    tokens=(8192, 2048),
    row_tokens=2048,
    head_tokens=2048,
    attention_tokens=(2048, 8192, 32_768),
    attention_positions=32_768,
    copy_bytes=GIB,
    optimizer_values=64 * MIB,
    decode_sequences=(1, 16),
    cache_sequences=64,
    cache_tokens=2048,
    host_bytes=256 * MIB,
    generate_layers=28,
    generate_tokens=(4, 20),
)
"""Of a card: beyond its last-level cache, and long enough that launches are hidden."""

PROCESSOR = Sizes(
    models=("HuggingFaceTB/SmolLM2-135M",),
    tokens=(64,),
    row_tokens=32,
    head_tokens=16,
    attention_tokens=(64, 256),
    attention_positions=256,
    copy_bytes=32 * MIB,
    optimizer_values=MIB,
    decode_sequences=(1,),
    cache_sequences=4,
    cache_tokens=256,
    host_bytes=8 * MIB,
    generate_layers=4,
    generate_tokens=(2, 6),
)
"""Of a processor: the same code in a few seconds; no estimate uses what it gives."""
