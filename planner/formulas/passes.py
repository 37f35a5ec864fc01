"""Seconds of what a pass over a model computes, cause by cause, each by its share of a peak.

FLOPs are those of :mod:`planner.formulas.compute`; the shares are of kernels measured at the shapes
that one micro-batch gives them (:mod:`planner.kernels`). A kernel's share holds nothing but the
kernel: norms, casts, waiting and launches are terms of their own. Tables are of milliseconds; in
seconds a card at its power limit keeps only part of such rates (efficiencies.json
sustained-compute).
"""

from __future__ import annotations

from planner.formulas.duration import Rate

TABLES = "kernel tables of the catalog (docs/kernels.md), at the shapes of one micro-batch"
OWN_KERNELS = "accuracy/measured/kernels-h100-80gb.json"
FLASH = "FlashAttention-2 (arXiv 2307.08691)"

PRODUCTS = Rate(
    "GEMMs",
    "flops / (peak_flops_per_second * share * sustained)",
    unit="seconds",
    source=f"{TABLES}; that gradients are as fast: {OWN_KERNELS}",
    why="Every projection is a GEMM of its own shape: tokens by input width by output width. In "
    "the backward, the input's gradient has the two widths swapped, and the weight's gradient is a "
    "GEMM of output width by tokens by input width.",
    ignores="that a backward's products are forward ones of their shape only within 0.8 to 1.1 of "
    "the share: operands lie the other way round",
)
BACK_SHARES = 0.8, 1.1
"""Of the share of forward products of a shape, what a backward's products of it may reach. On an
H100 the two gradients of 30 shapes took 0.93 to 1.21 of the forward of the same widths (5th and
95th percentile; median 0.99, of weights alone 0.92 to 1.22; kernels-h100-80gb.json): shares of 0.83
to 1.07. One operand or both lie the other way round in memory, and weights' gradients are summed
over tokens, which are many."""
BACK_FACTORS = 1 / BACK_SHARES[1], 1 / BACK_SHARES[0]
"""The same of seconds."""
EXPERTS = Rate(
    "experts",
    "flops / (peak_flops_per_second * share * sustained)",
    unit="seconds",
    source=f"{TABLES}; that torch's are as fast: {OWN_KERNELS}",
    why="All experts of a layer run as grouped GEMMs, sized by the tokens routed to each expert; "
    "the measured share already includes uneven routing. Where torch has no grouped kernel, each "
    "expert is a separate GEMM.",
    ignores="that the kernels of the tables are vLLM's: torch's grouped products on an H100 took "
    "0.89 to 1.16 of their seconds forward and 0.87 to 1.19 for both gradients",
)
LOOPED = Rate(
    "experts looped over",
    "forwards * layers * met * (kernels / usual_kernels * pass_by_forward * launch_seconds"
    " + 4 * whole_bytes / (bandwidth_bytes_per_second * share))",
    unit="seconds",
    source="transformers 5.23.0, experts_implementation=eager, counted as torch dispatches it "
    "(torch 2.13.0): 14 kernels an expert forward, 22 backward",
    why="For each expert that gets tokens, Python looks up, gathers, weights and adds these tokens "
    "besides the GEMMs, and the host waits for the card each time. In the backward each such "
    "expert makes gradients as large as all experts' weights and all tokens: they are written as "
    "zeros, read twice and written once more to be added.",
    ignores="that its products are smaller than grouped ones; releases before 5 whose experts are "
    "modules of their own, which make no whole gradients of weights",
)
LOOPED_KERNELS = 14

ATTENTION = Rate(
    "attention",
    "flops / (peak_flops_per_second * share * sustained)",
    unit="seconds",
    source=TABLES,
    why="Scores and values of the query-key pairs that the kernel computes: half of all pairs with "
    "a causal flag, all pairs with an explicit mask tensor.",
)
ATTENTION_BACK_SHARE = Rate(
    "share of attention's backward",
    "forward_share * backward_over_forward",
    unit="values",
    source=f"{FLASH}, abstract and section 4: 63% of an A100's peak back, 73% forward; "
    f"{OWN_KERNELS}",
    why="Two and a half times the operations, at a somewhat smaller share of the peak.",
    ignores="that it grows with the rows: 0.66 of 1,024 tokens to 1 of long ones",
)
ATTENTION_BACK_OVER_FORWARD = 0.66, 1.0
"""The same, least and most. On an H100 in rows of 1,024, 4,096 and 16,384: FlashAttention-2 0.67,
0.79 and 0.90 (heads of 64), 0.66, 0.82 and 0.94 (of 128); cuDNN 0.66, 0.83 and 0.96, 0.68, 0.89 and
0.87."""


def attention_back_factors(backward_over_forward: float) -> tuple[float, float]:
    """Seconds of attention's backward at both ends, by those at ``backward_over_forward``."""
    least, most = ATTENTION_BACK_OVER_FORWARD
    return backward_over_forward / most, backward_over_forward / least


FLASH_BACK_OVER_FORWARD = 0.86
BACK_OVER_FORWARD = {"eager": 1.0, "flash_attention_3": 0.80}
"""Where it is another. FlashAttention-3 by 2: forward 1.5 to 2 times as fast, backward 1.5 to 1.75
(arXiv 2407.08608, section 4.1); 0.86 times the middles of both."""
FLASH2_BY_MAJOR = {"9": 0.61, "10": 0.20}
"""FlashAttention-2 by the later kernels of the tables, by the major compute capability. Hopper,
head size 128, rows of 2,048, causal, on an H20: 65.9 against 107.8 TFLOP/s
(github.com/Dao-AILab/flash-attention/issues/1310); on an H100 at its best 35 % of the peak against
75 % (arXiv 2407.08608, abstract), which is 0.47. A B200, head size 128, no mask: 352 TFLOP/s in
rows of 2,048 and 354 of 4,096 (github.com/meta-pytorch/tritonbench/pull/171) against 1,706 and
1,796 (github.com/Dao-AILab/flash-attention/pull/2605); head size 64: 381 and 307 against 1,072 and
1,118 (issue 1589 there), which is 0.27 to 0.36. Its own kernels run there compiled for Ampere."""

ADAPTERS = Rate(
    "adapters",
    "flops / (peak_flops_per_second * share)",
    unit="seconds",
    source=TABLES,
    why="Each adapted projection adds two narrow GEMMs, which use only a small part of the card.",
)
HEAD = Rate(
    "LM head GEMMs",
    "flops / (peak_flops_per_second * share * sustained)",
    unit="seconds",
    source=TABLES,
    why="Every scored position is multiplied by the head's whole weight, in GEMMs of as many rows "
    "as the loss takes at once.",
)
RECOMPUTED = Rate(
    "recompute",
    "times * forward_seconds",
    unit="seconds",
    source="torch.utils.checkpoint: the layers' forward runs once more before their backward",
    why="GEMMs, attention and memory-bound kernels of the layers run again; the head does not.",
)
DEQUANTISED = Rate(
    "4-bit weights made whole",
    "uses * elements * (0.5 + value_bytes)",
    unit="bytes",
    source="bitsandbytes MatMul4Bit: dequantize_4bit in the forward and again in the backward",
    why="Each GEMM with a 4-bit weight first reads the weight in 4 bits and writes it in the "
    "compute dtype.",
    ignores="scales, and that the kernel may be limited by its table look-ups",
)
CAST_WEIGHTS = Rate(
    "autocast weight casts",
    "uses * elements * 6",
    unit="bytes",
    source="torch autocast: fp32 weights are cast once in each forward, their gradients back",
    why="A weight's cast reads four bytes and writes two; its gradient's cast reads two and writes "
    "four.",
)
ACCUMULATED = Rate(
    "gradient accumulation",
    "additions * elements * 3 * value_bytes",
    unit="bytes",
    source="torch AccumulateGrad: both read, one written, for each micro-batch after the first",
    why="Each micro-batch after the first adds the whole model's gradients to those of the earlier "
    "ones.",
)
COPIED_SHARDS = Rate(
    "copies around collectives",
    "gathers * elements * gathered_bytes + reductions * trainable * reduced_bytes",
    unit="bytes",
    source="torch 2.13 FSDP2 _fsdp_collectives.py: split_with_sizes_copy, chunk_cat (read)",
    why="Gathered weights are copied out of one flat buffer, and gradients are copied into one "
    "before they are reduced.",
)
