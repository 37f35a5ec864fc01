"""The tensors that live where the loss meets the vocabulary, one formula each.

Everything the paths in this package are made of. Which of these are alive together is read off
the code that runs there and counted in real CPU runs (torch 2.13, transformers 5.23, trl 1.16,
verl 0.9.1; 2026-10). Imports the formula core only.
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.formulas.logits.head import Head
from planner.term import Term

FP32_BYTES = 4
SOURCE = "storages counted in a real run on CPU, torch 2.13, read 2026-10"


def over_vocabulary(name: str, why: str) -> Formula:
    """A formula for one tensor of a row per token and a column per vocabulary entry."""
    return Formula(
        name,
        "item_bytes * tokens * vocab",
        category="logits",
        source=SOURCE,
        why=why,
    )


LOGITS = over_vocabulary("logits", "The head's product: one score per token and vocabulary entry.")
WIDE_LOGITS = over_vocabulary(
    "logits in the loss's dtype",
    "Logits are upcast or divided by the temperature before the log-softmax.",
)
SQUASHED = over_vocabulary(
    "squashed logits", "tanh keeps its output for the backward pass (final_logit_softcapping)."
)
LOG_PROBS = over_vocabulary(
    "log-probabilities of the whole vocabulary",
    "log_softmax keeps its output for the backward pass.",
)
PROBS = over_vocabulary(
    "probabilities of the whole vocabulary", "The entropy keeps exp of the log-probabilities."
)
PROBS_BY_LOGS = over_vocabulary(
    "probabilities times their logs", "The summands of the entropy, before they are summed."
)
PICK_GRADIENT = over_vocabulary(
    "gradient of picking the taken tokens",
    "gather's backward writes a dense tensor that is zero except at the taken tokens.",
)
ENTROPY_GRADIENT = over_vocabulary(
    "gradients inside the entropy",
    "The entropy's backward multiplies its gradient by probabilities and log-probabilities.",
)
INSIDE_LOGSUMEXP = over_vocabulary(
    "exponentials inside logsumexp",
    "logsumexp subtracts the maximum and writes all exponentials out before it sums them; "
    "the operator hides the tensor, the allocator sees it.",
)
LOSS_GRADIENT = over_vocabulary(
    "gradient of the log-probabilities", "The gradient that the loss sends back to the log-softmax."
)
LOGITS_GRADIENT = over_vocabulary(
    "gradient of the logits", "The gradient that the log-softmax sends back to the head."
)
HIDDEN_GRADIENT = Formula(
    "gradient of the hidden states",
    "item_bytes * tokens * hidden",
    category="logits",
    source=SOURCE,
    why="The gradient that the head sends back to the final norm.",
)
HEAD_GRADIENT = Formula(
    "new gradient of the head's weight",
    "item_bytes * vocab * hidden",
    category="gradients",
    source=SOURCE,
    why="The head's weight gradient of this micro-batch, before it is added to an earlier one.",
)
PER_TOKEN = Formula(
    "per-token numbers of the loss",
    "copies * item_bytes * tokens",
    category="logits",
    source=SOURCE,
    why="Vectors of one number per token: log-probabilities, ratios, labels, their gradients.",
)
PER_ROW = Formula(
    "per-row numbers of the loss",
    "copies * item_bytes * rows",
    category="logits",
    source=SOURCE,
    why="Labels are padded by one for each row before they are shifted.",
)
SCALAR = Formula(
    "single numbers of the loss",
    "copies * item_bytes",
    category="logits",
    source=SOURCE,
    why="The loss, what it was divided by, and the one that starts the backward pass.",
)


def narrow(formula: Formula, head: Head, item_bytes: int = 0, label: str = "") -> Term:
    """A tensor of the head's sizes, in the format of hidden states and weight unless told."""
    sizes = {"tokens": head.tokens, "vocab": head.vocab, "hidden": head.hidden}
    known = {"item_bytes": item_bytes or head.item_bytes, **sizes}
    return formula.made(head.role, {name: known[name] for name in formula.inputs}, label)
