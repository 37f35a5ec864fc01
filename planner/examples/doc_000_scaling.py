"""Document 000's scaling table and advice, from the formula of its own breakdown."""

from __future__ import annotations

from planner.examples import lengths
from planner.examples.claim import Claim, Working, held_by
from planner.examples.doc_000 import PARAMETERS, VOCABULARY, intuitor, ppo

CLAIMS = "tests/examples/test_claims.py::"
PLANNED = f"{CLAIMS}test_document_000s_lengths_are_planned"


def _scaling(tokens: int, ppo_claimed: float, claimed: float, ratio: float) -> tuple[Claim, ...]:
    name = f"{tokens // 1000}K tokens"
    response = tokens * 2 // 3
    return (
        Claim(
            f"{name}: regular PPO", f"~{ppo_claimed:g}GB", ppo_claimed, "GB",
            working=ppo(tokens),
            case=lengths.case(name, lengths.ppo(response)),
            why="The document's breakdown grows by 0.2 GB per 1K tokens, its table by 2.5 GB; the "
            "two agree at 4K tokens.",
        ),
        Claim(
            f"{name}: Intuitor", f"~{claimed:g}GB", claimed, "GB",
            working=intuitor(tokens),
            case=lengths.case(name, lengths.intuitor(response)),
            why="The document stores the logits of all 64 sequences and their gradients at once; "
            "no trainer does.",
        ),
        Claim(
            f"{name}: ratio", f"{ratio:g}x", ratio, "×",
            working=Working(
                "intuitor_size / ppo_size",
                {"intuitor_size": intuitor(tokens).value, "ppo_size": ppo(tokens).value},
            ),
            said="below 1: Intuitor trains no critic",
            why="The document divides the columns of its table; its breakdown gives a different "
            "ratio, except near 4K tokens.",
        ),
    )


SCALING: tuple[Claim, ...] = held_by((PLANNED,), (
    *_scaling(2_000, 8, 160, 20),
    *_scaling(4_000, 13, 320, 25),
    *_scaling(6_000, 18, 480, 27),
    *_scaling(8_000, 23, 640, 28),
))
"""The scaling table; 13.2 GB at 6K above and 18 GB here are the same quantity."""

def _setting(name: str, prompts: int, responses: int, response: int, written: str) -> Claim:
    """One of its two settings for eight cards, 2K of prompt."""
    return Claim(
        f"{name} setting, per GPU", written, 80, "GB",
        working=Working(
            "(parameters * 8 + 2 * sequences * tokens * vocabulary * 4) / gpus",
            {
                "parameters": PARAMETERS,
                "sequences": prompts * responses,
                "tokens": 2_000 + response,
                "vocabulary": VOCABULARY,
                "gpus": 8,
            },
        ),
        judged="agrees" if name == "Conservative" else "does not follow",
        case=lengths.group(prompts, responses, response),
        tested=(f"{CLAIMS}test_document_000s_settings_both_fit_when_planned",),
        why=f"{prompts} prompts × {responses} responses of {response // 1000}K after 2K "
        + ("fit 80 GB by the document's own sum "
        "too." if name == "Conservative" else "do not fit 80 GB by the document's own sum. In "
        "micro-batches, which every trainer uses, this batch fits."),
    )


ADVICE: tuple[Claim, ...] = held_by((PLANNED,), (
    Claim(
        "18K tokens", "→ ~1.4TB memory", 1400, "GB",
        working=intuitor(18_000),
        case=lengths.case("18K tokens", lengths.intuitor(12_000)),
        why="The claim follows, but the settings that the document prints below it are 2K and 4K "
        "tokens, not 16K.",
    ),
    Claim(
        "2K + 2K = 4K tokens", "→ ~160GB memory", 160, "GB",
        working=intuitor(4_000),
        case=lengths.case("4K tokens", lengths.intuitor(4_000 * 2 // 3)),
        why="160 GB is the figure for 2K tokens in the document's own table.",
    ),
    Claim(
        "Saving of the new lengths", "~90% memory savings", 90, "%",
        working=Working("1 - tokens / before", {"tokens": 4, "before": 18}),
        truth=Working("1 - tokens / before", {"tokens": 4, "before": 18}),
        tested=(f"{CLAIMS}test_document_000_saves_less_than_it_says",),
        why="Memory that is linear in the length falls in proportion to the length.",
    ),
    Claim(
        "Chunked self-certainty", "chunked_self_certainty(logits, chunk_size=1024)",
        said="off by 5.0 nats or more",
        judged="does not follow",
        tested=(f"{CLAIMS}test_the_documents_chunks_are_not_self_certainty",),
        why="Averaging the chunks' log-sum-exps does not give the log-sum-exp of the whole: it is "
        "off by at least log 149, and the ranking of answers within a group changes.",
    ),
    Claim(
        "Mixed precision", "Keep logits in bfloat16: self_certainty(logits.float())",
        said="twice the temporaries",
        judged="does not follow",
        tested=(f"{CLAIMS}test_the_documents_mixed_precision_doubles_the_temporaries",),
        why="`logits.float()` first copies all logits to fp32. Computed in bf16, self-certainty "
        "needs temporaries of 2.0 times the logits' size; computed from the fp32 copy, it needs "
        "4.0 times that size.",
    ),
    _setting("Conservative", 16, 4, 1_000, "fits in memory, 8×80GB"),
    _setting("Aggressive", 32, 8, 2_000, "maximum utilization, 8×80GB"),
))
"""The numbers and the code of its advice."""

CHUNKS = (
    "The document's `chunked_self_certainty` is not self-certainty: averaging the chunks' "
    "log-sum-exps does not give the log-sum-exp of the whole. It is off by at least log 149 = 5.0 "
    "nats and changes the ranking of answers within a group. Chunks over tokens and a running "
    "log-sum-exp over the vocabulary are exact; this app plans both."
)
"""The document's second strategy, checked against the exact value."""
