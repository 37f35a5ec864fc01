"""Document 001, "Memory-Efficient GRADE Implementation": its optimizations and their sums.

It says one row of 64 tokens, a vocabulary of 32k and 4,096 hidden, and trains Qwen3-4B, which has
151,936 and 2,560. The code was read in LukasNel/gradeste at 46e8c58 (2026-10).
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.examples.claim import DRY_RUN, Claim, Working, held_by
from planner.examples.dry_runs import LEGACY, OPTIMISED
from planner.examples.unrolled import (
    BF16,
    HIDDEN,
    INTERMEDIATE,
    KEPT,
    KV_TOKEN_BYTES,
    ONLY_STEPS,
    PAIRS,
    PARAMETERS,
    POSITIONS,
    PROMPT,
    VOCABULARY,
    kept,
    sizes,
    with_weights,
)

TITLE = "Which of GRADE's six optimizations save memory?"

OURS = "tests/examples/test_claims.py::test_ours_of_document_001"
LAYERS_KEEP = "tests/examples/test_grade_documents.py::test_what_a_layer_keeps_is_the_formulas_sum"
SOURCE = "read: LukasNel/gradeste@46e8c58, training_grade.py"

TOKENS = 64
TOP_K = 256
DOCUMENT: Mapping[str, float] = {
    "rows": 1,
    "tokens": TOKENS,
    "vocabulary": 32_000,
    "hidden": 4096,
    "top_k": TOP_K,
}
TRUE: Mapping[str, float] = {**DOCUMENT, "vocabulary": VOCABULARY, "hidden": HIDDEN}
"""The model that is trained."""

DENSE = "rows * tokens * vocabulary * 4"
LISTED = "rows * tokens * top_k * 12"
"""Weights in fp32 and ids in int64."""
GATHERED = "rows * tokens * top_k * hidden * 2"
LEGACY_SOFT = 8.0
CODED_SOFT = 4.03
"""Bytes per entry of the vocabulary that autograd keeps for one soft token; measured on a CPU."""

COLUMN_BEFORE = "4e9 + 4e9 + 8e9 + 4e9 + 20e9"
COLUMN_AFTER = "32e6 + 0 + 2e9 + 32e6 + 5e9"
_BEFORE = with_weights(KEPT, 1, TOKENS, BF16)
_ONE_STEP = "layers * (token_bytes * longest + pair_bytes * longest ** 2)"
_AFTER = Working(
    f"3 * parameters * width + {ONLY_STEPS} + {_ONE_STEP}",
    {**_BEFORE.inputs, "longest": PROMPT + TOKENS - 1},
)
"""Three models, the inputs of every step, and the longest step run again in the backward."""
_SAVING = Working(
    "before / after", {"before": _BEFORE.value, "after": _AFTER.value}
)


def _given(expression: str, **more: float) -> Working:
    return Working(expression, {**DOCUMENT, **more})


def _true(expression: str, **more: float) -> Working:
    return Working(expression, {**TRUE, **more})


OPTIMIZATIONS: tuple[Claim, ...] = held_by((OURS,), (
    Claim(
        "Why it is needed", "OOM even on H100 80GB", 80, "GB",
        working=Working(f"3 * parameters * 2 + {COLUMN_BEFORE}", {"parameters": PARAMETERS}),
        truth=with_weights(KEPT, 2, 128, BF16),
        why="Its table and the weights of three models would fit. The run that failed had two rows "
        "of 128 tokens and, on its first step, no recomputation.",
    ),
    Claim(
        "Top-k 256 of 32k", "~125x reduction for soft token storage", 125, "×",
        working=_given("vocabulary / top_k"),
        truth=Working("legacy / coded", {"legacy": LEGACY_SOFT, "coded": CODED_SOFT}),
        why="In elements; an entry with its id takes 12 bytes for 4, so 41.7. And the code "
        "scatters the weights back to a dense row, which autograd keeps: 4.03 bytes an entry of "
        "the vocabulary for 8 (12 with straight-through, so 3 times).",
    ),
    Claim(
        "Online KL", "~2x reduction", 2, "×",
        truth=Working("3 * row / (2 * row)", {"row": 4 * VOCABULARY}),
        why="Soft tokens, the policy's logits and the reference's are 38.9 MB each; one of three "
        "goes. All three are 0.4% of what the layers keep.",
    ),
    Claim(
        "Reference with a KV cache", "~3-4x faster", 3.5, "×",
        truth=Working(f"{POSITIONS} / (prompt + tokens)", {"prompt": PROMPT, "tokens": TOKENS}),
        why="4,064 positions become 96: in operations 42 times less, for the reference alone. In "
        "seconds nothing at this size: 64 forwards of 36 layers take about 3.1 s to launch with "
        "or without a cache, and their products at most 0.3 s. With 16 rows of 500 + 2,000 tokens "
        "the reference is about 22 times faster.",
    ),
    Claim(
        "Half the length", "~4x memory reduction in attention", 4, "×",
        working=Working("(128 / 64) ** 2"),
        truth=Working(
            f"{PAIRS} / half",
            {
                "prompt": PROMPT,
                "tokens": 128,
                "half": Working(
                    PAIRS, {"prompt": PROMPT, "tokens": TOKENS}
                ).value,
            },
        ),
        why="One pass over prompt and response has (160 / 96)² = 2.8 times fewer pairs; summed "
        "over the steps, as they all stay alive, 4.8 times.",
    ),
    Claim(
        "Effective batch", "1 × 16 = 16", 16, "rows",
        working=Working("1 * 16"),
        truth=Working("1"),
        tested=(OURS, SOURCE),
        why="`gradient_accumulation_steps` is never read.",
    ),
    Claim(
        "Top-256 covers", ">99.9% of probability mass", 99.9, "%",
        tested=(SOURCE,),
        why="Not shown, and not the same at every position: it falls with the temperature "
        "and where the model is unsure.",
    ),
    Claim(
        "Sparse reward input", "O(batch × seq × k × hidden) for O(batch × seq × vocab × hidden)",
        said="O(batch × seq × (vocab + hidden)) before",
        judged="does not follow",
        tested=("tests/examples/test_claims.py::test_a_product_stores_its_result_alone",),
        why="The product of soft tokens and embeddings stores its operands and its result; "
        "vocab × hidden of each are operations. What is gathered instead is larger.",
    ),
    Claim(
        "Same KL and reward", "should match legacy implementation",
        said="another loss: its KL is in none",
        judged="does not follow",
        tested=(SOURCE,),
        why="Its code reads the online KL as a number, so nothing is trained by it, and compares "
        "the reference's distribution of token t + 1 with the policy's of token t. Our program "
        "prints train/reward and train/kl of each step, with --method gumbel and gumbel_legacy.",
    ),
    Claim(
        "KL token by token", "should be equivalent in expectation",
        said="equal but for rounding, where both keep it in the loss",
        judged="agrees",
        tested=("tests/methods/test_grade_step.py::test_online_and_batch_kl_agree",),
        why="The same terms are added up one by one or at once. Its own code compares other "
        "positions online, so there it is another number.",
    ),
    Claim(
        "KV-cache memory", "offset by not storing intermediate activations",
        said="nothing was stored before",
        judged="does not follow",
        why="The reference has no gradient, so it keeps no activations with or without a cache. "
        "The cache is 14 MB that were not there: a fair price for the forwards it saves.",
    ),
))
"""The document's numbers beside its options."""

PROFILE: tuple[Claim, ...] = held_by((OURS,), (
    Claim(
        "soft_tokens, original", "~4 GB", 4, "GB",
        working=_given(DENSE),
        truth=_true(DENSE),
        why="64 rows of the vocabulary in fp32: megabytes.",
    ),
    Claim(
        "soft_tokens, optimised", "~32 MB", 32, "MB",
        working=_given(LISTED),
        truth=_true("rows * tokens * vocabulary * coded", coded=CODED_SOFT),
        why="The list itself is small; as coded, the dense rows are kept as before.",
    ),
    Claim(
        "soft_tokens, reduction", "125x", 125, "×",
        working=Working("4e9 / 32e6"),
        truth=Working("legacy / coded", {"legacy": LEGACY_SOFT, "coded": CODED_SOFT}),
        why="The two entries above divided; neither is right.",
    ),
    Claim(
        "ref_logits, original", "~4 GB", 4, "GB",
        working=_given(DENSE),
        truth=_true(DENSE),
        why="As many as soft tokens.",
    ),
    Claim(
        "ref_logits, optimised", "0", 0, "MB",
        truth=_true("rows * vocabulary * 4"),
        why="One row at a time.",
    ),
    Claim(
        "Reference activations, original", "~8 GB", 8, "GB",
        truth=_true(
            "rows * (prompt + tokens) * (vocabulary + 3 * intermediate) * 2",
            prompt=PROMPT,
            intermediate=INTERMEDIATE,
        ),
        why="Without a gradient nothing is kept: the whole row's logits and one layer's MLP pass.",
    ),
    Claim(
        "Reference activations, optimised", "~2 GB", 2, "GB",
        truth=_true("rows * (prompt + tokens) * kv_bytes", prompt=PROMPT, kv_bytes=KV_TOKEN_BYTES),
        why="The KV cache, which is all that stays.",
    ),
    Claim(
        "Reference activations, reduction", "4x", 4, "×",
        working=Working("8e9 / 2e9"),
        truth=_true(
            "(vocabulary + 3 * intermediate) * 2 / kv_bytes",
            intermediate=INTERMEDIATE,
            kv_bytes=KV_TOKEN_BYTES,
        ),
        why="Of megabytes that pass for megabytes that stay.",
    ),
    Claim(
        "Reward matmul, original", "~4 GB", 4, "GB",
        working=_given("rows * tokens * vocabulary * hidden * 2"),
        truth=_true("rows * tokens * hidden * 2"),
        why="O(batch × seq × vocab × hidden) counts operations; as memory it would be 16.8 GB. A "
        "matrix product stores its result, and the soft tokens exist anyway.",
    ),
    Claim(
        "Reward matmul, optimised", "~32 MB", 32, "MB",
        working=_given(GATHERED),
        truth=_true(GATHERED),
        why="The gathered embeddings are kept for the backward. Sparse input takes more whenever "
        "k × hidden is above the vocabulary: 655,360 against 151,936.",
    ),
    Claim(
        "Reward matmul, reduction", "125x", 125, "×",
        working=Working("4e9 / 32e6"),
        truth=_true("1 / (top_k)"),
        why="The sign is the other way round: 256 times more.",
    ),
    Claim(
        "Policy activations, original", "~20 GB", 20, "GB",
        truth=kept(1, TOKENS, BF16),
        tested=(OURS, LAYERS_KEEP),
        why="The one large entry of the table, and too small: every token runs the whole row and "
        "keeps it. As coded, with dropout and autocast's copies, 26.8 GB; 32.0 with the dropout "
        "of a CPU.",
    ),
    Claim(
        "Policy activations, optimised", "~5 GB (checkpointed)", 5, "GB",
        truth=Working(ONLY_STEPS, sizes(1, TOKENS, BF16)),
        why="A checkpointed step keeps one row of embeddings; with layers recomputed instead "
        "of steps it is 36 times that, 0.75 GB. One step is run again at a time, 0.65 GB.",
    ),
    Claim(
        "Policy activations, reduction", "4x", 4, "×",
        working=Working("20e9 / 5e9"),
        truth=Working(
            f"before / ({ONLY_STEPS} + {_ONE_STEP})",
            {
                **sizes(1, TOKENS, BF16),
                "longest": PROMPT + TOKENS - 1,
                "before": kept(1, TOKENS, BF16).value,
            },
        ),
        why="The only optimization that matters does far more than it says.",
    ),
    Claim(
        "Total peak, original", "~40+ GB", 40, "GB",
        working=Working(COLUMN_BEFORE),
        truth=_BEFORE,
        tested=(OURS, f"{DRY_RUN}{LEGACY}"),
        why="Its column, which leaves out the weights: 24 GB for three models.",
    ),
    Claim(
        "Total peak, optimised", "~10-15 GB", 12.5, "GB",
        working=Working(COLUMN_AFTER),
        truth=_AFTER,
        tested=(OURS, f"{DRY_RUN}{OPTIMISED}"),
        why="Its column sums to 7. The weights alone are 24 GB.",
    ),
    Claim(
        "Total peak, reduction", "~3-4x", 3.5, "×",
        working=Working("before / after", {"before": 40, "after": 12.5}),
        truth=_SAVING,
        why="From 40 to 10-15; its columns would give 5.7.",
    ),
    Claim(
        "Success criterion", "~4-5x", 4.5, "×",
        working=Working("before / after", {"before": 40, "after": 12.5}),
        truth=_SAVING,
        why="More than its own table promises.",
    ),
))
"""The document's table of expected memory, entry by entry."""

DIFFERENT_LOSS = (
    "It expects the KL and the reward of the legacy run. Its code reads the online KL as a number "
    "(`.item()`), so the KL is in no loss, and compares the reference's distribution of token "
    "t + 1 with the policy's of token t. The runs planned here keep it in the loss, aligned; that "
    "costs what the table below shows. Those called *as coded* have it as the number it is, with "
    "the dropout and the autocast of the code."
)
"""What its success criteria overlook."""
