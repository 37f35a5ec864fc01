"""Document 004, "Activation Caching Analysis": its activation table, recomputed.

It says Qwen2.5-Coder-3B and uses the dimensions of a 7B model, and every "MB" of its table
is a number of elements, half the bytes that bf16 takes. True dimensions: config.json of
Qwen2.5-Coder-3B (the catalog's row; a test compares).
"""

from __future__ import annotations

from planner.examples.claim import Claim, Working

TITLE = "Document 004 · Activations"

ROWS = 2
TOKENS = 512
DOCUMENT = {
    "rows": ROWS,
    "tokens": TOKENS,
    "hidden": 3584,
    "heads": 28,
    "kv_width": 3584,
    "intermediate": 18944,
    "layers": 28,
    "vocabulary": 152_064,
}
"""The dimensions the document multiplies; keys and values as wide as queries."""
TRUE = {
    "rows": ROWS,
    "tokens": TOKENS,
    "hidden": 2048,
    "heads": 16,
    "kv_width": 2 * 128,
    "intermediate": 11008,
    "layers": 36,
    "vocabulary": 151_936,
}
"""Qwen2.5-Coder-3B: 16 query heads, 2 key and value heads of 128."""

HIDDEN = "rows * tokens * hidden * 2"
QKV = "rows * tokens * (hidden + 2 * kv_width) * 2"
SCORES = "rows * heads * tokens * tokens * 2"
ATTENTION = f"{QKV} + {SCORES} + {HIDDEN}"
GATE_UP = "2 * rows * tokens * intermediate * 2"
MLP = f"{GATE_UP} + {HIDDEN}"
NORMS = f"2 * {HIDDEN}"
LAYER = f"{ATTENTION} + {MLP} + {NORMS}"
STACK = f"layers * ({LAYER})"
LOGITS = "rows * tokens * vocabulary * 2"
PASS = f"{STACK} + {HIDDEN} + {LOGITS}"

ELEMENTS = "Elements, not bytes. "
"""Every MB of the table is a million elements; bf16 takes two bytes for each."""


def _claim(
    what: str, written: str, claimed: float, expression: str, why: str, unit: str = "MB"
) -> Claim:
    return Claim(
        what, written, claimed, unit,
        working=Working(expression, DOCUMENT),
        truth=Working(expression, TRUE),
        why=why,
    )


TABLE: tuple[Claim, ...] = (
    _claim("One hidden tensor", "3.67 MB", 3.67, HIDDEN, ELEMENTS.strip()),
    _claim(
        "Query, key, value",
        "11 MB",
        11,
        QKV,
        ELEMENTS + "Grouped-query attention has 2 key and value heads here, not 28.",
    ),
    _claim(
        "Attention scores",
        "14.7 MB",
        14.7,
        SCORES,
        ELEMENTS + "Only eager attention keeps them; SDPA and flash keep none.",
    ),
    _claim("Attention of a layer", "~30 MB", 30, ATTENTION, ELEMENTS.strip()),
    _claim("Gate and up", "38.8 MB", 38.8, GATE_UP, ELEMENTS.strip()),
    _claim("MLP of a layer", "~42 MB", 42, MLP, ELEMENTS + "SiLU and its product are missing."),
    _claim("Norms of a layer", "~7 MB", 7, NORMS, ELEMENTS + "Their fp32 upcasts are missing."),
    _claim("One layer", "~79 MB", 79, LAYER, ELEMENTS.strip()),
    _claim("All layers", "~2.2 GB", 2.2, STACK, "28 layers of a 7B model, half counted.", "GB"),
    _claim("Embeddings", "3.67 MB", 3.67, HIDDEN, ELEMENTS.strip()),
    _claim(
        "Final logits",
        "155.6 MB",
        155.6,
        LOGITS,
        ELEMENTS + "The loss keeps an fp32 copy besides: twice as much again.",
    ),
    _claim(
        "Per forward pass",
        "~2.4 GB",
        2.4,
        PASS,
        "Only the pass with gradients keeps it; the reference pass keeps no activations.",
        "GB",
    ),
    Claim(
        "With the reference's activations cached", "~4.8 GB", 4.8, "GB",
        working=Working(f"2 * ({PASS})", DOCUMENT),
        truth=Working(PASS, TRUE),
        why="A reference pass under no_grad keeps nothing, so there is nothing to double.",
    ),
    Claim(
        "Caching the chosen log-probs", "~156 MB (just logits)", 156, "MB",
        working=Working(LOGITS, DOCUMENT),
        truth=Working("rows * (tokens - 1) * 2", TRUE),
        why="`ref_selected_log_probs` is one number per token, 2 KB; the code keeps the whole "
        "[2, 512, vocabulary] tensor that it was gathered from.",
    ),
)
"""The document's table, in its order."""

PASSES = (
    "The code the document describes runs three forwards, not two, and its reference is the "
    "current policy itself, so its KL term is zero apart from dropout. With LoRA a true "
    "reference costs nothing: the adapters are switched off."
)
"""What the table does not show."""
