"""What outlives the loss: per-token numbers for the update, the embedding's gradient.

Also the figure of a document that this project audits, under that document's own assumptions.
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.formulas.logits.head import Head
from planner.formulas.logits.pieces import FP32_BYTES, SOURCE
from planner.numeric import Num
from planner.term import Term

KEPT = Formula(
    "one number per response token",
    "item_bytes * sequences * tokens",
    category="logits",
    source="verl 0.9.1 and trl 1.16.0 keep log-probabilities in fp32; read 2026-10",
    why="Old or reference log-probabilities, advantages or self-certainty, stored until the "
    "update.",
)
EMBEDDING_GRADIENT = Formula(
    "new gradient of the embedding",
    "(beside + passes_on) * item_bytes * vocab * hidden",
    category="gradients",
    source=SOURCE,
    why="The embedding's backward writes a dense gradient; if the weight is tied, the head's "
    "gradient is alive too, and sometimes the sum of both gradients.",
    ignores="the sorting buffers of CUDA's kernel, a few numbers per token",
)
SHIFTED_LABELS = Formula(
    "shifted labels",
    "8 * tokens",
    category="logits",
    source="planner/steps/vocabulary/sft.py",
    why="A copy of the labels, shifted by one position, that scoring keeps for the backward pass.",
)
DOCUMENT_PREMISE = Formula(
    "self-certainty as the audited document has it",
    "2 * 4 * sequences * tokens * vocab",
    category="logits",
    source="the project's first document: 64 sequences of 6K tokens, fp32 logits and gradient",
    why="All logits of the whole batch in fp32 at once, and a gradient of the same size.",
    ignores="micro-batches, and that no gradient exists: Intuitor scores under no_grad",
)


def log_prob_kept(
    head: Head,
    *,
    name: str,
    role: str,
    sequences: Num = None,
    tokens: Num = None,
    item_bytes: int = FP32_BYTES,
) -> Term:
    """One ``[sequences, tokens]`` tensor that waits for the update.

    ``name`` says which (old log-probs, advantages, self-certainty); without ``sequences`` and
    ``tokens`` it is as long as the head's own micro-batch.
    """
    return KEPT(
        role,
        label=name,
        item_bytes=item_bytes,
        sequences=1 if sequences is None else sequences,
        tokens=head.tokens if tokens is None else tokens,
    )


def embedding_backward(
    *,
    vocab: Num,
    hidden: Num,
    item_bytes: int,
    role: str,
    beside: int = 0,
    passes_on: Num = 1,
) -> Term:
    """Gradients of the embedding that are alive beside its ``.grad`` when the backward ends.

    With one micro-batch the dense gradient becomes ``.grad`` itself; with more it is added to
    the earlier one. ``beside`` counts what a tied weight has besides: the head's gradient, and
    their sum where autograd adds the two out of place.
    """
    return EMBEDDING_GRADIENT(
        role,
        tensors=beside + passes_on,
        beside=beside,
        passes_on=passes_on,
        item_bytes=item_bytes,
        vocab=vocab,
        hidden=hidden,
    )
