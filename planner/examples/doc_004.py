"""Document 004, "Activation Caching Analysis": its activation table, recomputed.

It says Qwen2.5-Coder-3B and uses the dimensions of a 7B model, and every "MB" of its table
is a number of elements, half the bytes that bf16 takes. True dimensions: config.json of
Qwen2.5-Coder-3B (the catalog's row; a test compares).

What is right is what autograd keeps in the plan the page opens (LoRA of rank 16 in fp32 on
every projection of a bf16 model, eager attention, no checkpointing), operation by operation
and by hand; a test holds it against the plan's estimate.
"""

from __future__ import annotations

from planner.examples.claim import Claim, Working, held_by

TITLE = "How much do activations take, and is a cache worth it?"

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
PLANNED = {**TRUE, "rank": 16}
"""The same with the adapters' rank, as the plan of the page has it."""

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
INVENTORY = Working(PASS, TRUE)
"""What the document lists, with the true shapes and two bytes for each element."""

ADAPTER = "rows * tokens * 4 * (hidden + rank)"
"""An adapter on a hidden-wide input keeps its own fp32 copy of it, and its low-rank output."""
KEPT_QKV = f"3 * {HIDDEN} + 3 * {ADAPTER}"
KEPT_SCORES = "rows * heads * tokens * tokens * (4 + 2)"
KEPT_ATTENTION = f"{KEPT_QKV} + {KEPT_SCORES} + {ADAPTER}"
KEPT_GATE_UP = f"{GATE_UP} + 2 * {ADAPTER}"
SILU_AND_DOWN = "rows * tokens * (2 * intermediate + 4 * (intermediate + rank))"
KEPT_MLP = f"{KEPT_GATE_UP} + {SILU_AND_DOWN}"
NORM = "rows * tokens * (4 * hidden + 4)"
KEPT_LAYER = f"{KEPT_ATTENTION} + {KEPT_MLP} + 2 * {NORM}"
KEPT_STACK = f"layers * ({KEPT_LAYER}) - {NORM}"
FINAL_NORM = f"{NORM} + {HIDDEN}"
KEPT_LOGITS = "rows * tokens * vocabulary * (4 + 4)"
KEPT_PASS = f"{KEPT_STACK} + {FINAL_NORM} + {KEPT_LOGITS}"

ELEMENTS = "Elements, not bytes. "
"""Every MB of the table is a million elements; bf16 takes two bytes for each."""


def _claim(
    what: str,
    written: str,
    claimed: float,
    expression: str,
    kept: str,
    why: str,
    unit: str = "MB",
) -> Claim:
    return Claim(
        what, written, claimed, unit,
        working=Working(expression, DOCUMENT),
        truth=Working(kept, PLANNED),
        why=why,
    )


OURS = "tests/examples/test_claims.py::test_ours_of_document_004"
TESTS = "tests/examples/test_documents.py::"
PLAN_KEEPS = f"{TESTS}test_what_is_right_in_document_004_is_what_its_plan_keeps"
SHAPES = f"{TESTS}test_document_004_takes_another_models_shape"
SOURCE = "read: shanksjay/mlx-rlaif-teacher-student@756b97f, train_rlaif.py"

TABLE: tuple[Claim, ...] = held_by((OURS, PLAN_KEEPS), (
    Claim(
        "Shapes of the model", "Qwen2.5-Coder-3B: 3,584 wide, 28 layers, vocabulary 152,064",
        said="2,048 wide, 36 layers, vocabulary 151,936",
        judged="does not follow",
        tested=(SHAPES,),
        why="The document's shapes are those of a 7B model, and every row below uses them.",
    ),
    _claim("One hidden tensor", "3.67 MB", 3.67, HIDDEN, HIDDEN, ELEMENTS.strip()),
    _claim(
        "Query, key, value",
        "11 MB",
        11,
        QKV,
        KEPT_QKV,
        ELEMENTS + "The model has 2 key and value heads, not 28; eager attention repeats them for "
        "all 16 query heads, and each adapter keeps its input in fp32.",
    ),
    _claim(
        "Attention scores",
        "14.7 MB",
        14.7,
        SCORES,
        KEPT_SCORES,
        ELEMENTS + "Eager attention keeps its softmax in fp32 and in bf16; SDPA and flash "
        "attention keep neither copy.",
    ),
    _claim(
        "Attention of a layer",
        "~30 MB",
        30,
        ATTENTION,
        KEPT_ATTENTION,
        ELEMENTS + "A layer's attention is the sum of the two rows above and the output "
        "projection's adapter.",
    ),
    _claim(
        "Gate and up",
        "38.8 MB",
        38.8,
        GATE_UP,
        KEPT_GATE_UP,
        ELEMENTS + "Each adapter keeps its input in fp32.",
    ),
    _claim(
        "MLP of a layer",
        "~42 MB",
        42,
        MLP,
        KEPT_MLP,
        ELEMENTS + "The document leaves out SiLU's output and the product of gate and up, which "
        "the down projection's adapter keeps in fp32.",
    ),
    _claim(
        "Norms of a layer",
        "~7 MB",
        7,
        NORMS,
        f"2 * {NORM}",
        ELEMENTS + "Norms keep their inputs in fp32, and their outputs are not kept.",
    ),
    _claim(
        "One layer",
        "~79 MB",
        79,
        LAYER,
        KEPT_LAYER,
        ELEMENTS + "The document's list gives 83.9 MB with the true shapes; it leaves out SiLU, "
        "the repeated heads, and the fp32 copies of norms, softmax and adapters.",
    ),
    _claim(
        "All layers",
        "~2.2 GB",
        2.2,
        STACK,
        KEPT_STACK,
        "The document counts 28 layers of a 7B model, and only half of their bytes. The first of "
        "the true model's 36 layers does not keep the input of its first norm, because nothing "
        "before it is trained.",
        "GB",
    ),
    _claim(
        "Embeddings",
        "3.67 MB",
        3.67,
        HIDDEN,
        "0",
        ELEMENTS + "A frozen embedding keeps nothing for the backward pass.",
    ),
    _claim(
        "Final logits",
        "155.6 MB",
        155.6,
        LOGITS,
        KEPT_LOGITS,
        ELEMENTS + "The loss keeps the logits in fp32 and their log-probabilities in fp32 as well.",
    ),
    _claim(
        "Per forward pass",
        "~2.4 GB",
        2.4,
        PASS,
        KEPT_PASS,
        "Only the forward pass with gradients keeps these activations; the reference pass keeps "
        "none.",
        "GB",
    ),
    Claim(
        "With the reference's activations cached", "~4.8 GB", 4.8, "GB",
        working=Working(f"2 * ({PASS})", DOCUMENT),
        truth=Working(KEPT_PASS, PLANNED),
        why="A reference pass under no_grad keeps nothing, so there is nothing to double.",
    ),
    Claim(
        "Caching the chosen log-probs", "~156 MB (just logits)", 156, "MB",
        working=Working(LOGITS, DOCUMENT),
        truth=Working("rows * (tokens - 1) * 2", TRUE),
        why="`ref_selected_log_probs` is one number per token, 2 KB; the code keeps the whole "
        "[2, 512, vocabulary] tensor that it was gathered from.",
    ),
    Claim(
        "Passes of a step", "two forward passes", 2, "passes",
        truth=Working("3"),
        judged="does not follow",
        tested=(SOURCE,),
        why="The code runs the training forward twice. The code's reference is the policy itself, "
        "so the KL term is zero apart from dropout.",
    ),
    Claim(
        "Why nothing can be reused", "eval and train mode differ (dropout, batch norm)",
        said="only the adapters' dropout differs",
        judged="does not follow",
        tested=("tests/examples/test_claims.py::test_the_model_has_no_batch_norm_and_no_dropout",),
        why="The model has no batch norm, and its dropout is set to 0.",
    ),
    Claim(
        "A frozen reference", "doubles model memory (3B → 6B)", 2, "×",
        working=Working("6e9 / 3e9"),
        truth=Working("1"),
        tested=("tests/examples/test_claims.py::test_a_frozen_reference_is_free_with_adapters",),
        why="With adapters the reference is the model with its adapters off, so it takes no extra "
        "memory. A copy of the model takes 6.2 GB in bf16.",
    ),
))
"""The document's table, in its order."""

PASSES = (
    "The code that the document describes runs three forwards, not two. The reference in that code "
    "is the current policy itself, so the KL term is zero apart from dropout. With LoRA a true "
    "reference takes no extra memory: it is the model with its adapters off."
)
"""What the table does not show."""
