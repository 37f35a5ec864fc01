"""Self-certainty, logsumexp(z) - mean(z) over the vocabulary, in three forms.

``full`` works on materialised logits. ``chunked-tokens`` takes 2048 of their rows at a time in
fp32, as the Intuitor fork of verl does; ``chunked-vocabulary`` never has more logits than one
slice of the vocabulary for all tokens, with a running log-sum-exp that keeps the result exact.
Intuitor computes it without gradient, in the old log-probability pass; with gradient is the
premise under which it is part of the loss, and then both chunked forms recompute. The mean of bf16
numbers makes an fp32 copy on a CPU and none on a GPU: that copy is left out. The code that this
reads like is planner/steps/vocabulary/certainty.py.
"""

from __future__ import annotations

from collections.abc import Callable

from planner.formulas.activations.tape import Tensor
from planner.formulas.formula import Formula
from planner.formulas.logits import over_vocabulary as op
from planner.formulas.logits.head import Head
from planner.formulas.logits.pieces import (
    HEAD_GRADIENT,
    HIDDEN_GRADIENT,
    INSIDE_LOGSUMEXP,
    LOGITS_GRADIENT,
    PER_TOKEN,
    SCALAR,
)
from planner.formulas.logits.recording import Program, Run, Scored
from planner.numeric import Num, minimum

TOKEN_CHUNK = 2048
VOCABULARY_CHUNK = 8192
INTUITOR = "sunblaze-ucb/Intuitor 3f0cdd7 verl-intuitor torch_functional.py; read 2026-10"

SLICE = Formula(
    "one slice of the logits",
    "item_bytes * slice_tokens * slice_vocab",
    category="logits",
    source=INTUITOR,
    why="A chunk of tokens by the vocabulary, or all tokens by a chunk of the vocabulary.",
)


def check_way(how: str) -> None:
    """``ValueError`` for a form without formulas."""
    if how not in WAYS:
        raise ValueError(f"self_certainty must be one of {', '.join(WAYS)}, not {how!r}")


def full(run: Run) -> Tensor:
    """The log-sum-exp less the mean of all logits at once."""
    logits, wide, back = op.divided(run), run.wide, "the mean's gradient"
    run.at("upcast or division")
    log_z = op.logsumexp(run, op.upcast(run, logits, wide))
    run.at("difference")
    mean = op.unary(run, logits, PER_TOKEN, LOGITS_GRADIENT, width=wide, back=back)
    found = run.numbers(wide)
    return run.function([log_z, mean], found, [0, (PER_TOKEN, wide)])[0]


def weighted(run: Run, scores: Tensor) -> Scored:
    """The scores; or, with gradient, their mean by weights as a loss."""
    if not run.gradient:
        return Scored(scores)
    run.at("loss")
    products = op.unary(run, scores, PER_TOKEN, PER_TOKEN, width="fp32")
    del scores
    return Scored(loss=op.unary(run, products, SCALAR, PER_TOKEN))


def by_tokens(run: Run) -> Tensor:
    """Some rows of materialised logits at a time, in fp32; the backward does so again."""
    logits = op.capped(run) if run.gradient else op.product(run)
    log_z, found = run.numbers("fp32", "fp32")
    run.at("slice upcast")
    chunk = [] if logits.width == "fp32" else [run.new(SLICE, "fp32", "slice in fp32")]
    sum_exponentials(run)
    del chunk
    back = [(SLICE, "fp32", "slice's gradient in fp32"), (LOGITS_GRADIENT, run.narrow)]
    return run.function([logits], [found], back, [logits.storage, log_z], "slice's gradient")[0]


def by_vocabulary(run: Run) -> Tensor:
    """A slice of the vocabulary at a time, made again in the backward."""
    log_z, found = run.numbers("fp32", "fp32")
    run.at("slice upcast")
    made = [] if run.narrow == "fp32" else [run.new(SLICE, run.narrow, "slice before the upcast")]
    chunk = run.new(SLICE, "fp32", "slice in fp32")
    del made
    sum_exponentials(run)
    run.at("slice's sum")
    own = run.numbers("fp32")
    del chunk, own
    back = [(SLICE, "fp32", "slice's gradient in fp32")]
    if run.head.softcap:
        back.append((SLICE, "fp32", "slope of the slice's soft cap"))
    elif run.narrow != "fp32":
        back.append((SLICE, run.narrow, "slice in the head's dtype"))
    inputs = run.inputs()
    back += [(made, run.narrow, "") for made in (HIDDEN_GRADIENT, HEAD_GRADIENT)[: len(inputs)]]
    return run.function(inputs, [found], back, [log_z], "slice's gradient")[0]


def sum_exponentials(run: Run) -> None:
    """A slice's log-sum-exp, added to the one so far."""
    run.at("slice's logsumexp")
    inside = run.new(SLICE, "fp32", INSIDE_LOGSUMEXP.name)


def _way(
    score: Callable[[Run], Tensor], sizes: Callable[[Head], dict[str, Num]]
) -> tuple[Program, Callable[[Head], dict[str, Num]]]:
    return lambda run: weighted(run, score(run)), sizes


def _slices(head: Head, tokens: Num, vocab: Num) -> dict[str, Num]:
    return {
        "slice_tokens": minimum(head.tokens, tokens), "slice_vocab": minimum(head.vocab, vocab)
    }


WAYS = {
    "full": _way(full, lambda _: {}),
    "chunked-tokens": _way(by_tokens, lambda head: _slices(head, TOKEN_CHUNK, head.vocab)),
    "chunked-vocabulary": _way(
        by_vocabulary, lambda head: _slices(head, head.tokens, VOCABULARY_CHUNK)
    ),
}
"""Forms by what a plan's ``self_certainty`` calls them."""
