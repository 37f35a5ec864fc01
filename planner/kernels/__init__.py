"""Seconds of single kernels by their shape, from kernels that were measured on the card.

Time is the roofline by the share of it that the same kernel reached at the nearest measured
shapes. Pure look-ups: sizes may be numbers or arrays that broadcast, tables are read on first use.
Every function gives the seconds of *one kernel* (in a mixture, of a layer's experts together) as a
CUDA graph replays it: no gap before a launch, no host time, no norms, casts or copies around it.
Forward only: nobody has measured a backward.
"""

from planner.kernels.attention import decode_attention_seconds as decode_attention_seconds
from planner.kernels.attention import prefill_attention_seconds as prefill_attention_seconds
from planner.kernels.collectives import collective_seconds as collective_seconds
from planner.kernels.collectives import reduce_seconds as reduce_seconds
from planner.kernels.experts import experts_seconds as experts_seconds
from planner.kernels.explanation import explain as explain
from planner.kernels.products import products_seconds as products_seconds
from planner.kernels.tables import tables_of as tables_of
