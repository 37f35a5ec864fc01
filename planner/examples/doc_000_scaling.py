"""Document 000's scaling table and advice, from the formula of its own breakdown."""

from __future__ import annotations

from planner.examples.claim import Claim, Working
from planner.examples.doc_000 import PARAMETERS, VOCABULARY, intuitor, ppo


def _scaling(tokens: int, ppo_claimed: float, claimed: float, ratio: float) -> tuple[Claim, ...]:
    name = f"{tokens // 1000}K tokens"
    return (
        Claim(
            f"{name}: regular PPO", f"~{ppo_claimed:g}GB", ppo_claimed, "GB",
            working=ppo(tokens),
            why="The breakdown grows by 0.2 GB per 1K tokens, the table by 2.5; they meet at 4K.",
        ),
        Claim(
            f"{name}: Intuitor", f"~{claimed:g}GB", claimed, "GB",
            working=intuitor(tokens),
            why="The logits of all 64 sequences at once, twice; no trainer holds them.",
        ),
        Claim(
            f"{name}: ratio", f"{ratio:g}x", ratio, "×",
            working=Working(
                "intuitor_size / ppo_size",
                {"intuitor_size": intuitor(tokens).value, "ppo_size": ppo(tokens).value},
            ),
            why="The ratio of the table's columns; the breakdown gives another, except near 4K.",
        ),
    )


SCALING: tuple[Claim, ...] = (
    *_scaling(2_000, 8, 160, 20),
    *_scaling(4_000, 13, 320, 25),
    *_scaling(6_000, 18, 480, 27),
    *_scaling(8_000, 23, 640, 28),
)
"""The scaling table; 13.2 GB at 6K above and 18 GB here are the same quantity."""

ADVICE: tuple[Claim, ...] = (
    Claim(
        "18K tokens", "→ ~1.4TB memory", 1400, "GB",
        working=intuitor(18_000),
        why="Follows; but the settings printed below that line are 2K and 4K, not 16K.",
    ),
    Claim(
        "2K + 2K = 4K tokens", "→ ~160GB memory", 160, "GB",
        working=intuitor(4_000),
        why="That is the row of 2K.",
    ),
    Claim(
        "Saving of the new lengths", "~90% memory savings", 90, "%",
        working=Working("1 - tokens / before", {"tokens": 4, "before": 18}),
        why="Memory that is linear in the length falls as the length does.",
    ),
    Claim(
        "Aggressive setting, per GPU", "fits 8×80GB", 80, "GB",
        working=Working(
            "(parameters * 8 + 2 * sequences * tokens * vocabulary * 4) / gpus",
            {
                "parameters": PARAMETERS,
                "sequences": 32 * 8,
                "tokens": 4_000,
                "vocabulary": VOCABULARY,
                "gpus": 8,
            },
        ),
        why="32 prompts × 8 responses of 2K + 2K do not fit 80 GB by the document's own sum.",
    ),
)
"""The numbers of its advice."""

CHUNKS = (
    "Its `chunked_self_certainty` is not self-certainty: the mean of the chunks' log-sum-exps is "
    "not the log-sum-exp of the whole. It is off by at least log 149 = 5.0 nats and reorders "
    "the answers of a group. Chunks over tokens, or a running log-sum-exp over the vocabulary, "
    "are exact; this app plans those."
)
"""The document's second strategy, checked against the exact value."""
