"""GRADE's soft generation: what the graph of every unrolled step keeps until the backward.

Step t runs the whole row of ``first_tokens + t`` positions, so what one step keeps is summed
over the steps: a tensor with a row per position grows with the sum of the lengths, one with a
score per pair of positions with the sum of their squares. Sizes may be arrays.
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.numeric import Num
from planner.term import Category

SOURCE = "storages counted in real steps on CPU, torch 2.13, transformers 5.23"
AUTOGRAD = "torch 2.13 derivatives.yaml (read); " + SOURCE

STEP_ROWS = Formula(
    "a row per position, in every step",
    "token_bytes * steps * (2 * first_tokens + steps - 1) // 2",
    category="activations",
    source=SOURCE,
    why="Each step keeps one row per position, and has one position more than the step before.",
)
STEP_PAIRS = Formula(
    "a score per pair of positions, in every step",
    "pair_bytes * (steps * first_tokens * first_tokens + first_tokens * steps * (steps - 1)"
    " + (steps - 1) * steps * (2 * steps - 1) // 6)",
    category="activations",
    source=SOURCE,
    why="Each step keeps one score per pair of its positions, so the total is a sum of squares.",
)
STEP_PADDED = Formula(
    "padded rows, in every step",
    "unit_bytes * padded_units",
    category="activations",
    source=SOURCE,
    why="The sum over all steps, with rows padded as the attention kernel requires.",
)
STEP_CONSTANT = Formula(
    "the same in every step",
    "step_bytes * steps",
    category="activations",
    source=SOURCE,
    why="Each step keeps a tensor whose size does not depend on the row's length.",
)


def over_vocabulary(name: str, why: str, category: Category = "logits") -> Formula:
    """One row of the vocabulary for every sequence and generated token."""
    return Formula(
        name,
        "value_bytes * sequences * steps * vocab",
        category=category,
        source=AUTOGRAD,
        why=why,
    )


def over_best(name: str, why: str) -> Formula:
    """One row of the k best entries for every sequence and generated token."""
    return Formula(
        name,
        "value_bytes * sequences * steps * top_k",
        category="logits",
        source=AUTOGRAD,
        why=why,
    )


SOFT_TOKENS = over_vocabulary(
    "soft tokens", "The softmax keeps its output, one fp32 weight per vocabulary entry."
)
STRAIGHT_THROUGH = over_vocabulary(
    "straight-through tokens",
    "The straight-through estimator keeps its one-hot values, which carry the soft gradient, as "
    "separate tensors.",
)
SCATTERED = over_vocabulary(
    "top-k weights scattered to the vocabulary",
    "The dense row over the vocabulary is kept, although the top k was meant to avoid it.",
)
MIXED_COPY = over_vocabulary(
    "soft tokens in the embedding's dtype",
    "The mixture of embeddings keeps its weights for the embedding's gradient.",
)
SQUASHED = over_vocabulary(
    "squashed logits of every step", "tanh keeps its output (final_logit_softcapping)."
)
KEPT_LOGITS = over_vocabulary(
    "policy logits kept for the KL term",
    "The logits of all steps are kept until one KL is computed at the end.",
)
KL_KEPT = over_vocabulary(
    "KL term: log-probabilities, probabilities, differences",
    "Per position the KL keeps the policy's log-probs, their exponentials and their differences to "
    "the reference's.",
)
VOCABULARY_ROWS = over_vocabulary(
    "rows over the vocabulary in passing",
    "Logits, noise, sums and gradients of one or all generated tokens, alive only briefly.",
)
SOFT_GRADIENT = over_vocabulary(
    "gradient of all soft tokens",
    "The reward's gradient for all soft tokens is one tensor, alive until the first token's "
    "backward, which runs last.",
)
GATHERED_GRADIENT = over_vocabulary(
    "gradients of scattered weights",
    "Gathering the top-k weights from a dense row gives every token a dense gradient in the "
    "backward.",
)
BEST_GRADIENT = over_best(
    "gradient of all top-k weights",
    "The reward's gradient for all top-k weights is one tensor, alive until the first token's "
    "backward, which runs last.",
)
KL_GRADIENT = over_vocabulary(
    "gradient of all kept logits",
    "The batch KL's gradient for all steps' logits is one tensor, alive until the first step's "
    "backward, which runs last.",
)
BEST_IDS = over_best("ids of the top k", "topk keeps the chosen entries' 64-bit ids.")
BEST_WEIGHTS = over_best(
    "weights of the top k",
    "The softmax keeps its output; the straight-through estimator keeps another tensor of that "
    "size.",
)
BEST_ROWS = Formula(
    "embeddings of the top k",
    "value_bytes * sequences * steps * top_k * hidden",
    category="activations",
    source=AUTOGRAD,
    why="The weighted sum keeps the k gathered embeddings of each token for the weights' gradient.",
)
MIXTURES = Formula(
    "soft tokens as embeddings",
    "value_bytes * sequences * steps * hidden",
    category="activations",
    source=SOURCE,
    why="The response's soft tokens, each a mixture of embeddings.",
)
PROMPT_ROWS = Formula(
    "row so far",
    "value_bytes * sequences * tokens * width",
    category="activations",
    source=SOURCE,
    why="The embeddings, token ids or mask that the running step reads, which a variable keeps "
    "alive.",
)
IN_FLIGHT = Formula(
    "gradients summed over the steps",
    "(trainable - late) * value_bytes",
    category="gradients",
    source="torch autograd engine: a weight used in many steps has its gradients added up in an "
    "input buffer, and reaches .grad after the first step's backward; " + SOURCE,
    why="Every weight is used in each step, so its gradient is complete only at the end of the "
    "backward.",
)
STEP_GRADIENT = Formula(
    "a step's gradient being added",
    "copies * weight_elements * value_bytes",
    category="gradients",
    source="torch 2.13 input_buffer.cpp: the first sum is out of place where the gradient is a "
    "view, as every linear layer's is; " + SOURCE,
    why="A weight's gradient from one step is alive beside the sum over the later steps; at the "
    "first addition the new sum is a third tensor.",
)
NORM_BACKWARD = Formula(
    "gradients inside the final norm",
    "5 * 4 * sequences * tokens * hidden",
    category="activations",
    source="transformers 5.23 RMSNorm through autograd, in fp32; " + SOURCE,
    why="The backward of square, mean and scale runs in fp32 and holds five tensors of the hidden "
    "states' shape.",
)


def padded_units(first_tokens: Num, steps: Num, multiple: int, *, pairs: bool) -> Num:
    """Sum over the steps of the padded length, times the length for ``pairs``."""
    return _below(first_tokens + steps, multiple, pairs) - _below(first_tokens, multiple, pairs)


def _below(end: Num, multiple: int, pairs: bool) -> Num:
    """The sum over all lengths below ``end``, in whole blocks of ``multiple`` and a rest."""
    blocks, rest = (end - 1) // multiple, (end - 1) % multiple
    if not pairs:
        return multiple * (multiple * (blocks * (blocks + 1) // 2) + rest * (blocks + 1))
    # Block j holds lengths m(j-1)+1 .. mj, all padded to mj: their sum is m*m*j - m(m-1)/2.
    m = multiple
    squares = blocks * (blocks + 1) * (2 * blocks + 1) // 6
    whole = m * (m * m * squares - m * (m - 1) // 2 * (blocks * (blocks + 1) // 2))
    return whole + m * (blocks + 1) * (rest * m * blocks + rest * (rest + 1) // 2)
