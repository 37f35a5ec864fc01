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
        why="The memory in the document's table and the weights of three models would fit in 80 "
        "GB. The run that failed had two rows of 128 tokens and, on its first step, no "
        "recomputation.",
    ),
    Claim(
        "Top-k 256 of 32k", "~125x reduction for soft token storage", 125, "×",
        working=_given("vocabulary / top_k"),
        truth=Working("legacy / coded", {"legacy": LEGACY_SOFT, "coded": CODED_SOFT}),
        why="The document's 125× counts elements; counted in bytes it is 41.7×, because an entry "
        "with its id takes 12 bytes instead of 4. The code also scatters the weights back to a "
        "dense row, which autograd keeps: 4.03 bytes per vocabulary entry instead of 8. With "
        "straight-through it is 4.03 bytes instead of 12, a factor of 3.",
    ),
    Claim(
        "Online KL", "~2x reduction", 2, "×",
        truth=Working("3 * row / (2 * row)", {"row": 4 * VOCABULARY}),
        why="Soft tokens, the policy's logits and the reference's logits take 38.9 MB each; online "
        "KL saves one of the three. The soft tokens and both models' logits together are 0.4% of "
        "the activations that the layers keep.",
    ),
    Claim(
        "Reference with a KV cache", "~3-4x faster", 3.5, "×",
        truth=Working(f"{POSITIONS} / (prompt + tokens)", {"prompt": PROMPT, "tokens": TOKENS}),
        why="With a cache the reference computes 96 positions instead of 4,064: 42 times fewer "
        "operations, but only for the reference. At the document's size the cache saves no time: "
        "launching 64 forwards of 36 layers takes about 3.2 s with or without a cache, and their "
        "GEMMs take at most 0.3 s. With 16 rows of 500 + 2,000 tokens a cache makes the reference "
        "about 22 times faster.",
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
        why="One pass over prompt and response has (160 / 96)² = 2.8 times fewer pairs of "
        "positions; summed over the generation steps, whose graphs all stay alive, there are 4.8 "
        "times fewer.",
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
        why="The document does not show how much the top 256 tokens cover. Their share differs "
        "between positions: it falls as the temperature rises and where the model is unsure.",
    ),
    Claim(
        "Sparse reward input", "O(batch × seq × k × hidden) for O(batch × seq × vocab × hidden)",
        said="O(batch × seq × (vocab + hidden)) before",
        judged="does not follow",
        tested=("tests/examples/test_claims.py::test_a_product_stores_its_result_alone",),
        why="The product of soft tokens and embeddings stores its operands and its result; O(batch "
        "× seq × vocab × hidden) is its number of operations. The embeddings that sparse input "
        "gathers take more memory than the product's result.",
    ),
    Claim(
        "Same KL and reward", "should match legacy implementation",
        said="another loss: its KL is in none",
        judged="does not follow",
        tested=(SOURCE,),
        why="The document's code reads the online KL as a number, so the KL has no gradient, and "
        "compares the reference's distribution of token t + 1 with the policy's of token t. Our "
        "program prints train/reward and train/kl of each step, with --method gumbel and "
        "gumbel_legacy.",
    ),
    Claim(
        "KL token by token", "should be equivalent in expectation",
        said="equal but for rounding, where both keep it in the loss",
        judged="agrees",
        tested=("tests/methods/test_grade_step.py::test_online_and_batch_kl_agree",),
        why="Online KL adds up one by one the same terms that batch KL adds up at once. The "
        "document's own code compares different positions in online mode, so its KL differs in "
        "that mode.",
    ),
    Claim(
        "KV-cache memory", "offset by not storing intermediate activations",
        said="nothing was stored before",
        judged="does not follow",
        why="The reference has no gradient, so it keeps no activations with or without a cache. A "
        "KV cache adds 14 MB, a fair price for the forwards that it saves.",
    ),
))
"""The document's numbers beside its options."""

PROFILE: tuple[Claim, ...] = held_by((OURS,), (
    Claim(
        "soft_tokens, original", "~4 GB", 4, "GB",
        working=_given(DENSE),
        truth=_true(DENSE),
        why="Soft tokens are 64 rows of the vocabulary in fp32: megabytes, not gigabytes.",
    ),
    Claim(
        "soft_tokens, optimised", "~32 MB", 32, "MB",
        working=_given(LISTED),
        truth=_true("rows * tokens * vocabulary * coded", coded=CODED_SOFT),
        why="The list of top-k weights is small, but the code still keeps the dense rows.",
    ),
    Claim(
        "soft_tokens, reduction", "125x", 125, "×",
        working=Working("4e9 / 32e6"),
        truth=Working("legacy / coded", {"legacy": LEGACY_SOFT, "coded": CODED_SOFT}),
        why="The document divides its two sizes of soft_tokens; both are wrong.",
    ),
    Claim(
        "ref_logits, original", "~4 GB", 4, "GB",
        working=_given(DENSE),
        truth=_true(DENSE),
        why="The reference's logits take as much memory as the soft tokens.",
    ),
    Claim(
        "ref_logits, optimised", "0", 0, "MB",
        truth=_true("rows * vocabulary * 4"),
        why="The reference's logits exist for one token at a time.",
    ),
    Claim(
        "Reference activations, original", "~8 GB", 8, "GB",
        truth=_true(
            "rows * (prompt + tokens) * (vocabulary + 3 * intermediate) * 2",
            prompt=PROMPT,
            intermediate=INTERMEDIATE,
        ),
        why="Without a gradient the reference keeps no activations: the whole row's logits and one "
        "layer's MLP are only temporary.",
    ),
    Claim(
        "Reference activations, optimised", "~2 GB", 2, "GB",
        truth=_true("rows * (prompt + tokens) * kv_bytes", prompt=PROMPT, kv_bytes=KV_TOKEN_BYTES),
        why="Of the reference's activations only the KV cache stays allocated.",
    ),
    Claim(
        "Reference activations, reduction", "4x", 4, "×",
        working=Working("8e9 / 2e9"),
        truth=_true(
            "(vocabulary + 3 * intermediate) * 2 / kv_bytes",
            intermediate=INTERMEDIATE,
            kv_bytes=KV_TOKEN_BYTES,
        ),
        why="A KV cache replaces temporary megabytes with megabytes that stay allocated.",
    ),
    Claim(
        "Reward matmul, original", "~4 GB", 4, "GB",
        working=_given("rows * tokens * vocabulary * hidden * 2"),
        truth=_true("rows * tokens * hidden * 2"),
        why="O(batch × seq × vocab × hidden) counts operations; as bytes it would be 16.8 GB. A "
        "matrix product stores only its result, and the soft tokens exist anyway.",
    ),
    Claim(
        "Reward matmul, optimised", "~32 MB", 32, "MB",
        working=_given(GATHERED),
        truth=_true(GATHERED),
        why="The gathered embeddings are kept for the backward. Sparse input takes more memory "
        "than dense input whenever k × hidden exceeds the vocabulary: here 655,360 against "
        "151,936.",
    ),
    Claim(
        "Reward matmul, reduction", "125x", 125, "×",
        working=Working("4e9 / 32e6"),
        truth=_true("1 / (top_k)"),
        why="The gathered embeddings take 256 times the memory of the dense product's result, not "
        "125 times less.",
    ),
    Claim(
        "Policy activations, original", "~20 GB", 20, "GB",
        truth=kept(1, TOKENS, BF16),
        tested=(OURS, LAYERS_KEEP),
        why="This is the only large entry of the document's table, and it is too small: every "
        "generated token runs the whole row and keeps its activations. As coded, with dropout and "
        "autocast's copies, the policy's activations take 26.8 GB, or 32.0 GB with a CPU's "
        "dropout.",
    ),
    Claim(
        "Policy activations, optimised", "~5 GB (checkpointed)", 5, "GB",
        truth=Working(ONLY_STEPS, sizes(1, TOKENS, BF16)),
        why="A checkpointed step keeps one row of embeddings; recomputing layers instead of steps "
        "keeps 36 times as much, 0.75 GB. The backward recomputes one step at a time, which takes "
        "0.65 GB.",
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
        why="Checkpointing is the only optimization that matters, and it saves far more than the "
        "document says.",
    ),
    Claim(
        "Total peak, original", "~40+ GB", 40, "GB",
        working=Working(COLUMN_BEFORE),
        truth=_BEFORE,
        tested=(OURS, f"{DRY_RUN}{LEGACY}"),
        why="The sum of the document's column leaves out the weights of three models, 24 GB.",
    ),
    Claim(
        "Total peak, optimised", "~10-15 GB", 12.5, "GB",
        working=Working(COLUMN_AFTER),
        truth=_AFTER,
        tested=(OURS, f"{DRY_RUN}{OPTIMISED}"),
        why="The document's column adds up to 7 GB. The weights alone take 24 GB.",
    ),
    Claim(
        "Total peak, reduction", "~3-4x", 3.5, "×",
        working=Working("before / after", {"before": 40, "after": 12.5}),
        truth=_SAVING,
        why="The document compares 40 GB with 10-15 GB; the sums of its columns would give 5.7×.",
    ),
    Claim(
        "Success criterion", "~4-5x", 4.5, "×",
        working=Working("before / after", {"before": 40, "after": 12.5}),
        truth=_SAVING,
        why="The document's success criterion promises a larger reduction than its own table.",
    ),
))
"""The document's table of expected memory, entry by entry."""

DIFFERENT_LOSS = (
    "The document expects the same KL and reward as in the legacy run. The document's code reads "
    "the online KL as a number (`.item()`), so the KL is in no loss, and compares the reference's "
    "distribution of token t + 1 with the policy's of token t. The runs planned here keep the KL "
    "in the loss and compare the same token; the table below shows what that costs. Runs called "
    "*as coded* only report the KL, as the code does, and have the code's dropout and autocast."
)
"""What its success criteria overlook."""
