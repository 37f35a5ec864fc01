"""Document 000, "Intuitor vs PPO Memory Analysis": its numbers from its own assumptions.

The document plans Qwen2.5-1.5B, 64 sequences of 6K tokens, and finds 13.2 GB for PPO and
481 GB for Intuitor. K is 1,000 and the vocabulary 152,000 in its sums, whatever its text
says. What Intuitor's published trainer does was read in sunblaze-ucb/Intuitor at 3f0cdd7
(2026-10): self-certainty is computed beside the old log-probs, without a gradient.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.examples.claim import Claim, Working, held_by

TITLE = "Does Intuitor need more memory than PPO?"

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
        PPO,
        {
            "parameters": PARAMETERS,
            "sequences": SEQUENCES,
            "tokens": tokens,
            "hidden": HIDDEN,
        },
    )


def extra(tokens: float) -> Working:
    """What the document adds for Intuitor at another length."""
    return Working(
        INTUITOR_EXTRA,
        {"sequences": SEQUENCES, "tokens": tokens, "vocabulary": VOCABULARY},
    )


def intuitor(tokens: float) -> Working:
    """The document's Intuitor total at another length."""
    return Working(f"{PPO} + {INTUITOR_EXTRA}", {**ppo(tokens).inputs, "vocabulary": VOCABULARY})


def _weights(factor: str) -> Working:
    return Working(f"parameters * {factor}", {"parameters": PARAMETERS})


def _true_weights(factor: str) -> Working:
    return Working(f"parameters * {factor}", {"parameters": TRUE_PARAMETERS})


NOTHING = Working("0")
DOCUMENTS = "tests/examples/test_documents.py::"
OURS = "tests/examples/test_claims.py::test_ours_of_document_000"

BREAKDOWN: tuple[Claim, ...] = held_by((OURS,), (
    Claim(
        "Vocabulary", "vocab_size = 151,936; then 152K", TRUE_VOCABULARY, "entries",
        working=Working("vocabulary", {"vocabulary": VOCABULARY}),
        truth=Working("vocabulary", {"vocabulary": TRUE_VOCABULARY}),
        tested=(OURS, f"{DOCUMENTS}test_document_000_names_the_catalogs_model"),
        why="The document's sums round the vocabulary up by 0.04%, to 152,000 entries; 152,064 is "
        "the vocabulary size of the 7B model.",
    ),
    Claim(
        "Model parameters", "1.5B × 2 bytes = 3GB", 3, "GB",
        working=_weights("2"),
        truth=_true_weights("4"),
        why="Trainers keep the weights of a trained model in fp32; its bf16 weights are a copy for "
        "computing.",
    ),
    Claim(
        "Model activations", "64 × 6K × 1536 × 2 = 1.2GB", 1.2, "GB",
        working=Working("sequences * tokens * hidden * 2", {**_TOKENS, "hidden": HIDDEN}),
        truth=Working(
            "sequences * tokens * hidden * 2 * layers",
            {"sequences": SEQUENCES, "tokens": 6144, "hidden": HIDDEN, "layers": LAYERS},
        ),
        why="The document counts one hidden tensor of one layer. Even with full gradient "
        "checkpointing each of the 28 layers keeps its input; without micro-batches these inputs "
        "take 33.8 GB.",
    ),
    Claim(
        "Log probabilities", "64 × 6K × 2 = 0.8MB", 0.8, "MB",
        working=Working("sequences * tokens * 2", _TOKENS),
        truth=Working("sequences * tokens * 4", {"sequences": SEQUENCES, "tokens": 6144}),
        why="The document rounds 0.77 MB up. Log-probs are kept in fp32, so they take twice the "
        "document's figure.",
    ),
    Claim(
        "Gradients", "1.5B × 2 bytes = 3GB", 3, "GB",
        working=_weights("2"),
        truth=_true_weights("4"),
        why="Gradients of fp32 weights are fp32.",
    ),
    Claim(
        "Other (optimizer states)", "~2×params = 6GB", 6, "GB",
        working=_weights("2 * 2"),
        truth=_true_weights("2 * 4"),
        why="Both Adam moments have the dtype of the weights they belong to: fp32.",
    ),
    Claim(
        "Total regular PPO", "≈ 13.2GB", 13.2, "GB",
        working=ppo(TOKENS),
        truth=Working("2 * parameters * 16", {"parameters": TRUE_PARAMETERS}),
        tested=(OURS, f"{DOCUMENTS}test_document_000s_critic_doubles_the_training_state"),
        why="PPO trains a critic as well, so two models take 16 bytes a parameter each, before any "
        "activations. The document also leaves out the reference, the reward model, the rollout "
        "engine and PPO's own logits.",
    ),
    Claim(
        "Full logits storage", "64 × 6K × 152K × 4 = 234GB", 234, "GB",
        working=Working(LOGITS, {**_TOKENS, "vocabulary": VOCABULARY}),
        truth=Working(
            "sequences * tokens * vocabulary * 2",
            {"sequences": 4, "tokens": 3584, "vocabulary": TRUE_VOCABULARY},
        ),
        why="Intuitor's authors run micro-batches of 4 × 3,584 tokens in bf16, and chunking makes "
        "their logits smaller still; PPO's logits have the same size.",
    ),
    Claim(
        "Logits gradients", "64 × 6K × 152K × 4 = 234GB", 234, "GB",
        working=Working(LOGITS, {**_TOKENS, "vocabulary": VOCABULARY}),
        truth=NOTHING,
        why="Self-certainty is a reward: it is computed without a gradient and detached. The "
        "gradient of the logits comes from the policy loss, which both PPO and Intuitor have.",
    ),
    Claim(
        "Self-certainty temporaries", "64 × 6K × 4 × 3 = 4.6MB", 4.6, "MB",
        working=Working("sequences * tokens * 4 * 3", _TOKENS),
        truth=Working("sequences * tokens * 4", {"sequences": SEQUENCES, "tokens": 6144}),
        why="Once self-certainty is computed, only one fp32 number per token stays allocated.",
    ),
    Claim(
        "Additional for Intuitor", "≈ 468GB", 468, "GB",
        working=extra(TOKENS),
        truth=Working("sequences * tokens * 4", {"sequences": SEQUENCES, "tokens": 6144}),
        why="The document's sum is right, but its conclusion is not: self-certainty does not raise "
        "the peak of its phase, because the entropy computed there needs the same temporaries.",
    ),
    Claim(
        "Total Intuitor memory", "≈ 481GB", 481, "GB",
        working=intuitor(TOKENS),
        truth=Working("parameters * 16", {"parameters": TRUE_PARAMETERS}),
        tested=(OURS, f"{DOCUMENTS}test_document_000s_critic_doubles_the_training_state"),
        why="Without a critic, Intuitor's training state is half of PPO's, before activations.",
    ),
))
"""The document's two breakdowns, line by line."""
