"""Document 000, "Intuitor vs PPO Memory Analysis": its numbers from its own assumptions.

The document plans Qwen2.5-1.5B, 64 sequences of 6K tokens, and finds 13.2 GB for PPO and
481 GB for Intuitor. K is 1,000 and the vocabulary 152,000 in its sums, whatever its text
says. What Intuitor's published trainer does was read in sunblaze-ucb/Intuitor at 3f0cdd7
(2026-10): self-certainty is computed beside the old log-probs, without a gradient.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.examples.claim import Claim, Working

TITLE = "Document 000 · Intuitor against PPO"

GB = 1e9
MB = 1e6

PARAMETERS = 1.5e9
"""What the document multiplies with."""
TRUE_PARAMETERS = 1_543_714_304
"""Of Qwen2.5-1.5B, tied embeddings once; a test holds it against the catalog."""
SEQUENCES = 64
TOKENS = 6_000
HIDDEN = 1536
LAYERS = 28
VOCABULARY = 152_000
TRUE_VOCABULARY = 151_936

_TOKENS: Mapping[str, float] = {"sequences": SEQUENCES, "tokens": TOKENS}

PPO = "3 * parameters * 2 + parameters * 2 + sequences * tokens * (hidden * 2 + 2)"
"""Weights, two of "other" and gradients in two bytes, one hidden tensor, log-probs."""
LOGITS = "sequences * tokens * vocabulary * 4"
INTUITOR_EXTRA = f"2 * {LOGITS} + sequences * tokens * 4 * 3"


def ppo(tokens: float) -> Working:
    """The document's PPO total at another length."""
    return Working(
        expression=PPO,
        inputs={
            "parameters": PARAMETERS,
            "sequences": SEQUENCES,
            "tokens": tokens,
            "hidden": HIDDEN,
        },
    )


def extra(tokens: float) -> Working:
    """What the document adds for Intuitor at another length."""
    return Working(
        expression=INTUITOR_EXTRA,
        inputs={"sequences": SEQUENCES, "tokens": tokens, "vocabulary": VOCABULARY},
    )


def intuitor(tokens: float) -> Working:
    """The document's Intuitor total at another length."""
    return Working(
        expression=f"{PPO} + {INTUITOR_EXTRA}",
        inputs={**ppo(tokens).inputs, "vocabulary": VOCABULARY},
    )


def _weights(factor: str) -> Working:
    return Working(expression=f"parameters * {factor}", inputs={"parameters": PARAMETERS})


def _true_weights(factor: str) -> Working:
    return Working(expression=f"parameters * {factor}", inputs={"parameters": TRUE_PARAMETERS})


NOTHING = Working(expression="0")

BREAKDOWN: tuple[Claim, ...] = (
    Claim(
        what="Model parameters",
        written="1.5B × 2 bytes = 3GB",
        claimed=3,
        unit="GB",
        scale=GB,
        working=_weights("2"),
        truth=_true_weights("4"),
        why="Trainers keep the weights they update in fp32; bf16 is a copy for computing.",
    ),
    Claim(
        what="Model activations",
        written="64 × 6K × 1536 × 2 = 1.2GB",
        claimed=1.2,
        unit="GB",
        scale=GB,
        working=Working(
            expression="sequences * tokens * hidden * 2", inputs={**_TOKENS, "hidden": HIDDEN}
        ),
        truth=Working(
            expression="sequences * tokens * hidden * 2 * layers",
            inputs={"sequences": SEQUENCES, "tokens": 6144, "hidden": HIDDEN, "layers": LAYERS},
        ),
        why="One hidden tensor of one layer. Even with full checkpointing each of the 28 layers "
        "keeps one; without micro-batches that is 33.8 GB.",
    ),
    Claim(
        what="Log probabilities",
        written="64 × 6K × 2 = 0.8MB",
        claimed=0.8,
        unit="MB",
        scale=MB,
        working=Working(expression="sequences * tokens * 2", inputs=_TOKENS),
        truth=Working(
            expression="sequences * tokens * 4", inputs={"sequences": SEQUENCES, "tokens": 6144}
        ),
        why="0.77 rounded up; they are kept in fp32, so it is twice that.",
    ),
    Claim(
        what="Gradients",
        written="1.5B × 2 bytes = 3GB",
        claimed=3,
        unit="GB",
        scale=GB,
        working=_weights("2"),
        truth=_true_weights("4"),
        why="Gradients of fp32 weights are fp32.",
    ),
    Claim(
        what="Other (optimizer states)",
        written="~2×params = 6GB",
        claimed=6,
        unit="GB",
        scale=GB,
        working=_weights("2 * 2"),
        truth=_true_weights("2 * 4"),
        why="Both Adam moments have the dtype of the weights they belong to: fp32.",
    ),
    Claim(
        what="Total regular PPO",
        written="≈ 13.2GB",
        claimed=13.2,
        unit="GB",
        scale=GB,
        working=ppo(TOKENS),
        truth=Working(expression="2 * parameters * 16", inputs={"parameters": TRUE_PARAMETERS}),
        why="PPO trains a critic as well: two models at 16 bytes a parameter before any "
        "activation. Reference, reward, rollout engine and PPO's own logits are missing too.",
    ),
    Claim(
        what="Full logits storage",
        written="64 × 6K × 152K × 4 = 234GB",
        claimed=234,
        unit="GB",
        scale=GB,
        working=Working(expression=LOGITS, inputs={**_TOKENS, "vocabulary": VOCABULARY}),
        truth=Working(
            expression="sequences * tokens * vocabulary * 2",
            inputs={"sequences": 4, "tokens": 3584, "vocabulary": TRUE_VOCABULARY},
        ),
        why="The authors run micro-batches of 4 × 3,584 tokens in bf16, and chunks make even "
        "that smaller; PPO has the same logits.",
    ),
    Claim(
        what="Logits gradients",
        written="64 × 6K × 152K × 4 = 234GB",
        claimed=234,
        unit="GB",
        scale=GB,
        working=Working(expression=LOGITS, inputs={**_TOKENS, "vocabulary": VOCABULARY}),
        truth=NOTHING,
        why="Self-certainty is a reward: it is computed without a gradient and detached. The "
        "policy loss has a logits gradient in both methods alike.",
    ),
    Claim(
        what="Self-certainty temporaries",
        written="64 × 6K × 4 × 3 = 4.6MB",
        claimed=4.6,
        unit="MB",
        scale=MB,
        working=Working(expression="sequences * tokens * 4 * 3", inputs=_TOKENS),
        truth=Working(
            expression="sequences * tokens * 4", inputs={"sequences": SEQUENCES, "tokens": 6144}
        ),
        why="What stays is one fp32 number per token.",
    ),
    Claim(
        what="Additional for Intuitor",
        written="≈ 468GB",
        claimed=468,
        unit="GB",
        scale=GB,
        working=extra(TOKENS),
        truth=Working(
            expression="sequences * tokens * 4", inputs={"sequences": SEQUENCES, "tokens": 6144}
        ),
        why="The sum is right and the conclusion is not: the peak of its phase does not rise at "
        "all, since the entropy beside it needs the same temporaries.",
    ),
    Claim(
        what="Total Intuitor memory",
        written="≈ 481GB",
        claimed=481,
        unit="GB",
        scale=GB,
        working=intuitor(TOKENS),
        truth=Working(expression="parameters * 16", inputs={"parameters": TRUE_PARAMETERS}),
        why="Without a critic, Intuitor's training state is half of PPO's, before activations.",
    ),
)
"""The document's two breakdowns, line by line."""
