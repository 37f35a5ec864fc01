"""What documents 001 and 002 leave out: the graph of every generated token stays alive.

Both train Qwen3-4B with GRADE, which generates soft tokens inside the training graph. Token t
runs the whole row of ``prompt + t`` positions again, without a cache. What one layer keeps for
one position is the exact sum over its operations with eager attention and adapters of rank 16 on
q, k, v and o; a test holds it against the formulas. With every weight trained it was measured
with autograd's hooks as 323,752 + 128 n bytes in fp32 and 182,440 + 192 n in bf16, n being
the length of the row; the formulas give the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.examples.claim import Working

PARAMETERS = 4_022_468_096
"""Of Qwen3-4B, tied embeddings once; a test holds it and the shape against the catalog."""
LAYERS = 36
HIDDEN = 2560
INTERMEDIATE = 9728
VOCABULARY = 151_936
KV_TOKEN_BYTES = 147_456
"""Keys and values of one token in all 36 layers, 8 heads of 128, bf16."""
PROMPT = 32

POSITIONS = "(tokens * prompt + tokens * (tokens - 1) / 2)"
"""Sum of ``prompt + t`` over the steps: positions that the policy's graph holds."""
PAIRS = (
    "(tokens * prompt ** 2 + prompt * tokens * (tokens - 1)"
    " + (tokens - 1) * tokens * (2 * tokens - 1) / 6)"
)
"""Sum of ``(prompt + t) ** 2``: pairs of positions that eager attention has scored."""
KEPT = f"rows * layers * (token_bytes * {POSITIONS} + pair_bytes * {PAIRS})"
ONLY_INPUTS = f"rows * layers * hidden * 2 * {POSITIONS}"
"""With every layer recomputed: one hidden tensor of each."""
ONLY_STEPS = f"rows * hidden * 2 * {POSITIONS}"
"""With every step recomputed: one row of embeddings of each."""

FP32 = {"token_bytes": 233_896, "pair_bytes": 128}
BF16 = {"token_bytes": 171_432, "pair_bytes": 192}
"""Bytes a layer keeps for a position, and for a pair of positions."""


def sizes(rows: int, tokens: int, kept: Mapping[str, int]) -> dict[str, float]:
    """Inputs of the expressions above, for rows of ``PROMPT`` prompt tokens."""
    return {
        "rows": rows,
        "layers": LAYERS,
        "hidden": HIDDEN,
        "prompt": PROMPT,
        "tokens": tokens,
        **kept,
    }


def kept(rows: int, tokens: int, of: Mapping[str, int]) -> Working:
    """What the policy's layers keep when nothing is recomputed, in bytes."""
    return Working(KEPT, sizes(rows, tokens, of))


def with_weights(expression: str, rows: int, tokens: int, of: Mapping[str, int]) -> Working:
    """The same with the weights of policy, reference and reward model."""
    width = 4 if of is FP32 else 2
    inputs = {**sizes(rows, tokens, of), "parameters": PARAMETERS, "width": width}
    return Working(f"3 * parameters * width + {expression}", inputs)
