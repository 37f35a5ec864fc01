"""The sizes an activation can have: one formula per shape and number format.

A decoder layer makes about a hundred tensors, but only with these shapes. Which
tensor is which is said by a term's name; how many bytes one takes is said here.
"""

from __future__ import annotations

from typing import NamedTuple

from planner.formulas.formula import Formula
from planner.term import Category

SOURCE = (
    "shapes in the modeling files of transformers 5.23.0; which of them autograd keeps was "
    "checked to the byte with saved-tensor hooks on torch 2.13.0"
)

ELEMENTS: dict[str, tuple[str, str]] = {
    "hidden": ("sequences * tokens * hidden", "One hidden vector a token."),
    "query": ("sequences * tokens * heads * head_dim", "One vector per query head and token."),
    "key": ("sequences * tokens * kv_heads * head_dim", "One vector per key head and token."),
    "query half": (
        "sequences * tokens * heads * (rotary_dim // 2)",
        "Half of every rotated query, negated by the rotary embedding.",
    ),
    "key half": (
        "sequences * tokens * kv_heads * (rotary_dim // 2)",
        "Half of every rotated key, negated by the rotary embedding.",
    ),
    "rotated query": (
        "sequences * tokens * heads * rotary_dim",
        "The rotated part of every query.",
    ),
    "rotated key": (
        "sequences * tokens * kv_heads * rotary_dim",
        "The rotated part of every key.",
    ),
    "fused query-key-value": (
        "sequences * tokens * (heads + 2 * kv_heads) * head_dim",
        "Output of the fused query, key and value projection.",
    ),
    "intermediate": (
        "sequences * tokens * intermediate",
        "One intermediate vector of the MLP per token.",
    ),
    "fused gate-up": (
        "2 * sequences * tokens * intermediate",
        "Output of the fused gate and up projection.",
    ),
    "routed": (
        "sequences * tokens * experts_per_token",
        "One number per token for each expert it is routed to.",
    ),
    "routed hidden": (
        "sequences * tokens * experts_per_token * hidden",
        "One hidden vector per token for each expert it is routed to.",
    ),
    "routed intermediate": (
        "sequences * tokens * experts_per_token * expert_intermediate",
        "One vector of an expert's intermediate size per token for each expert it is routed to.",
    ),
    "routed gate-up": (
        "2 * sequences * tokens * experts_per_token * expert_intermediate",
        "Output of an expert's fused gate and up projection.",
    ),
    "router": ("sequences * tokens * experts", "One number per token and expert."),
    "expert": ("experts", "One number per expert."),
    "rank": ("sequences * tokens * lora_rank", "One low-rank adapter vector a token."),
    "token": ("sequences * tokens", "One number a token."),
    "query head": ("sequences * tokens * heads", "One number per query head and token."),
    "padded query head": (
        "sequences * heads * round_up(tokens, 32)",
        "One number per query head and token; memory-efficient attention pads rows to a multiple "
        "of 32.",
    ),
    "key head": ("sequences * tokens * kv_heads", "One number per key head and token."),
    "score": (
        "sequences * heads * tokens * tokens",
        "One number per query head, query token and key token.",
    ),
    "pair": ("sequences * tokens * tokens", "One number per query token and key token."),
    "token pair": (
        "tokens * tokens",
        "One number per query token and key token, shared by all rows.",
    ),
    "padded pair": (
        "sequences * tokens * round_up(tokens, 8)",
        "One number per query token and key token; rows of the bias are padded to a multiple of 8.",
    ),
    "channel": ("hidden", "One number per hidden channel."),
    "head channel": ("head_dim", "One number per channel of a head."),
    "partial channel": (
        "multiprocessors * hidden",
        "One number per multiprocessor and hidden channel.",
    ),
    "partial head channel": (
        "multiprocessors * head_dim",
        "One number per multiprocessor and channel of a head.",
    ),
    "rotary table": (
        "positions * tokens * rotary_dim",
        "One number per position and rotary channel.",
    ),
    "position": ("positions * tokens", "One number per position."),
    "flash statistic": (
        "sequences * heads * round_up(tokens, 128)",
        "One number per query head and token; FlashAttention's backward pads rows to a multiple of "
        "128.",
    ),
    "flash accumulator": (
        "sequences * round_up(tokens, 128) * heads * round_up(head_dim, 32)",
        "FlashAttention's backward sums query gradients in fp32, padded to its tiles.",
    ),
    "efficient accumulator": (
        "sequences * heads * round_up(tokens, 64) * round_up(head_dim, 64)",
        "Memory-efficient attention's backward sums query gradients in fp32, padded to its tiles.",
    ),
    "query weight": ("hidden * heads * head_dim", "The weight of q_proj or o_proj."),
    "key weight": ("hidden * kv_heads * head_dim", "The weight of k_proj or v_proj."),
    "fused query-key-value weight": (
        "hidden * (heads + 2 * kv_heads) * head_dim",
        "The weight of the fused q, k, v projection.",
    ),
    "intermediate weight": (
        "hidden * intermediate",
        "The weight of the gate, up or down projection.",
    ),
    "router weight": ("hidden * experts", "The weight of the router."),
    "fused gate-up weight": (
        "2 * hidden * intermediate",
        "The weight of the fused gate and up projection.",
    ),
    "experts' gate-up weight": (
        "2 * experts * expert_intermediate * hidden",
        "The weights of all experts' fused gate and up projections.",
    ),
    "experts' down weight": (
        "experts * expert_intermediate * hidden",
        "The weights of all experts' down projections.",
    ),
    "rank by hidden": ("lora_rank * hidden", "An adapter's matrix on the hidden side."),
    "rank by query": ("lora_rank * heads * head_dim", "An adapter's matrix on the query side."),
    "rank by key": (
        "lora_rank * kv_heads * head_dim",
        "An adapter's matrix on the key or value side.",
    ),
    "rank by fused query-key-value": (
        "lora_rank * (heads + 2 * kv_heads) * head_dim",
        "An adapter's matrix on the fused query, key and value side.",
    ),
    "rank by intermediate": (
        "lora_rank * intermediate",
        "An adapter's matrix on the MLP's intermediate side.",
    ),
    "rank by fused gate-up": (
        "2 * lora_rank * intermediate",
        "An adapter's matrix on the fused gate and up side.",
    ),
    "rank by experts' hidden": (
        "experts * lora_rank * hidden",
        "All experts' adapter matrices on the hidden side.",
    ),
    "rank by experts' intermediate": (
        "experts * lora_rank * expert_intermediate",
        "All experts' adapter matrices on the intermediate side.",
    ),
    "rank by experts' gate-up": (
        "2 * experts * lora_rank * expert_intermediate",
        "All experts' adapter matrices on the fused gate and up side.",
    ),
    "vocabulary weight": ("vocab * hidden", "The weight of the language-model head."),
}
"""Shape name to its element count and what it is."""

GRADIENT = " gradient"
ELEMENTS |= {
    shape + GRADIENT: (elements, f"The gradient. {why}")
    for shape, (elements, why) in ELEMENTS.items()
    if shape.endswith(" weight") or shape.startswith("rank by ")
}
ELEMENTS |= {
    f"{name} scales": (f"ceil_div({elements}, 64)", "One number per 64 values of a 4-bit weight.")
    for name, (elements, _) in ELEMENTS.items()
    if name.endswith(" weight")
}

WIDTHS: dict[str, tuple[str, str]] = {
    "value": ("value_bytes", "in the computing number format"),
    "fp32": ("4", "in fp32"),
    "bool": ("1", "as booleans"),
    "int32": ("4", "as 32-bit integers"),
    "int64": ("8", "as 64-bit integers"),
}
"""Number format to its bytes and how to say it."""


class Kind(NamedTuple):
    """What the size of a storage follows from."""

    shape: str
    """Of :data:`ELEMENTS`."""
    width: str
    """Number format of :data:`WIDTHS`."""
    region: str = ""
    """Where a wrapper divides sizes among GPUs, the part of the layer whose sizes these are."""

    @property
    def formula(self) -> Formula:
        """Its bytes; the sizes put in are the region's."""
        return KINDS[self[:2]]


def _formula(shape: str, width: str) -> Formula:
    elements, why = ELEMENTS[shape]
    size, words = WIDTHS[width]
    gradient = shape.endswith(GRADIENT)
    category: Category = "gradients" if gradient else "activations"
    return Formula(
        f"{shape} {'' if gradient else 'activation '}{words}",
        f"copies * {elements} * {size}",
        category=category,
        source=SOURCE,
        why=f"{why} One copy per layer and tensor; negative for tensors already released.",
    )


KINDS: dict[tuple[str, str], Formula] = {
    (shape, width): _formula(shape, width)
    for shape in ELEMENTS
    for width in WIDTHS
    if width in ("value", "fp32")
    or shape in ("hidden", "score", "query head", "pair", "token", "position", "routed", "expert")
    or (width == "bool" and shape in ("query", "intermediate"))
}
