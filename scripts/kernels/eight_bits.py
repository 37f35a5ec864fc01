"""8-bit experts beside bf16's, with a scale a block and with one a tensor: for docs/kernels.md.

Called by ``errors.py``; of the wheel's rows at equal shapes, not of look-ups.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from distill import CARDS, EXPERT_DTYPES, ROUTING, WHEELS, Wheel, stored

TOKENS = (1, 16, 64, 256, 1024, 4096, 16384)
SCALES = {"fp8_block": "a block of 128 × 128", "fp8": "a tensor"}
SHAPE = ["hidden_size", "inter_size", "num_experts", "topk", "moe_tp_size", "num_tokens"]


def compared(folder: Path) -> Iterator[str]:
    """Median time of 8-bit experts by bf16's, by card, kind of scale and tokens."""
    yield "### 8-bit experts beside bf16's\n"
    yield (
        "Milliseconds divided by those of bf16 at the same shape, by number of tokens: the median "
        "over shapes that are whole on one GPU. The rows in bold are in the tables.\n"
    )
    yield "| card | a scale for | " + " | ".join(f"{count:,}" for count in TOKENS) + " |"
    yield "|---|---|" + "---:|" * len(TOKENS)
    for card, (name, version) in CARDS.items():
        rows = Wheel(folder / next(iter(WHEELS)), name, version).table("moe", "moe_perf")
        kept = stored(rows, "fp8")
        rows = rows[(rows.distribution == ROUTING) & (rows.moe_ep_size == 1)]
        for dtype in (one for one in EXPERT_DTYPES["fp8"] if one in set(rows.moe_dtype)):
            mark = "**" if dtype == kept else ""
            cells = [f"{value:.2f}" for value in _ratios(rows, dtype)]
            yield f"| {card} | {mark}{SCALES[dtype]}{mark} | " + " | ".join(cells) + " |"
    yield ""


def _ratios(rows: pd.DataFrame, dtype: str) -> list[float]:
    """Of each number of tokens the median over shapes that were measured in both."""
    seconds = rows.groupby([*SHAPE, "moe_dtype"]).latency.median().unstack("moe_dtype")
    ratio = (seconds[dtype] / seconds["bfloat16"]).dropna().groupby("num_tokens").median()
    return [float(ratio[count]) for count in TOKENS]
