"""Seconds of single kernels by their shape, from kernels that were measured on the card.

Time is the roofline by the share of it that the same kernel reached at the nearest measured
shapes. Pure look-ups: sizes may be numbers or arrays that broadcast, tables are read on first use.
Every function gives the seconds of *one kernel* (of all experts together in a mixture), replayed
from a CUDA graph: no gap before the launch, no host time, no norms, casts or copies around it.
Forward only: nobody has measured a backward.
"""

from planner.kernels.attention import decode_attention_seconds, prefill_attention_seconds
from planner.kernels.experts import experts_seconds
from planner.kernels.products import products_seconds
from planner.kernels.reduction import reduce_seconds
from planner.kernels.tables import Tables, tables_of

__all__ = [
    "Tables",
    "decode_attention_seconds",
    "experts_seconds",
    "prefill_attention_seconds",
    "products_seconds",
    "reduce_seconds",
    "tables_of",
]
