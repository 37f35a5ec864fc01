"""Bytes at the instants where the loss meets the vocabulary, per way of meeting it.

:func:`forward_instants` and :func:`backward_instants` give every instant that can be the
highest of a micro-batch's loss, beyond hidden states and weights. The others cover the passes
without gradient and what is kept between passes. Terms are new memory: an accumulated gradient that
already exists comes on top. Each way is a program of its own that reads like the code that runs
there; :mod:`.recording` runs it and multiplies sizes in.

Valid from a vocabulary of some hundred entries upwards, where no vector of the loss outweighs a
tensor over the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from planner.formulas.logits import (
    certainty,
    chunks,
    cross_entropy,
    materialised,
    packed,
    responses,
    tiles,
    values,
)
from planner.formulas.logits.head import INSIDE_MODEL, RETURNED, Head
from planner.formulas.logits.kept import (
    SHIFTED_LABELS,
    embedding_backward,
    log_prob_kept,
)
from planner.formulas.logits.pieces import (
    FP32_BYTES,
    HEAD_GRADIENT,
    HIDDEN_GRADIENT,
    LOGITS,
    LOGITS_GRADIENT,
    PER_TOKEN,
    SCALAR,
    SQUASHED,
    narrow,
)
from planner.formulas.logits.recording import Program, instants, recorded, terms
from planner.numeric import Num
from planner.term import Instant, Term
from planner.values.loss_code import CROSS_ENTROPY, OBJECTIVES, POLICY, VALUE

__all__ = [
    "INSIDE_MODEL",
    "RETURNED",
    "Head",
    "backward_instants",
    "cast_gradients",
    "certainty_instants",
    "certainty_kept",
    "embedding_backward",
    "forward_instants",
    "head_gradients",
    "kept_of_output",
    "log_prob_kept",
    "logprob_instants",
    "product",
    "scoring_kept",
]

Read = tuple[Program, Callable[[Head], Mapping[str, Num]]]
"""A way of meeting the vocabulary: its program, and the sizes of that program's pieces."""

PROGRAMS: Mapping[str, Read] = {
    "chunks": (chunks.scores, chunks.sizes),
    "chunks with every gradient": (partial(chunks.scores, every=True), chunks.sizes),
    "materialised": (materialised.scores, lambda _: {}),
    "packed": (packed.scores, lambda _: {}),
    "responses in a loop": (responses.loop_scores, responses.sizes),
    "responses in one kernel": (responses.kernel_scores, responses.sizes),
    "tiles": (tiles.scores, tiles.sizes),
    "values": (values.loss, lambda _: {"vocab": 1}),
    "cross entropy": (cross_entropy.loss, lambda head: {"again": head.rows > 1}),
    **certainty.WAYS,
}
"""Programs by the names that ways have them under (:data:`planner.values.loss_code.WAYS`), and
self-certainty's."""


def product(head: Head) -> tuple[Term, ...]:
    """The head's whole product alone, as it is being made."""
    return (narrow(LOGITS, head),)


def scoring_kept(head: Head, *, role: str) -> tuple[Term, ...]:
    """Terms that scoring with gradient leaves alive until the backward."""
    return _kept(_program(head, POLICY), head.of(role))


def kept_of_output(head: Head) -> tuple[Term, ...]:
    """What a loss outside the model hands back to it, beside what a soft cap has kept."""
    squashed = (narrow(SQUASHED, head),) if head.softcap else ()
    return (narrow(LOGITS_GRADIENT, head), *squashed)


def head_gradients(head: Head, *, role: str) -> tuple[Term, ...]:
    """What a second use of the head has handed back before the first goes backward."""
    formulas = (HIDDEN_GRADIENT, HEAD_GRADIENT)[: 1 + head.weight_trains]
    return tuple(narrow(formula, head.of(role)) for formula in formulas)


def cast_gradients(head: Head, *, role: str) -> tuple[Term, ...]:
    """What the head's backward hands on while its weight's gradient is cast to fp32."""
    made = head_gradients(head, role=role)
    label = "head's gradient in fp32"
    wide = [narrow(HEAD_GRADIENT, head.of(role), FP32_BYTES, label) for _ in made[1:]]
    return (*made, *wide)


def certainty_instants(
    head: Head, *, how: str, role: str, with_gradient: bool, backward: bool = False
) -> tuple[Instant, ...]:
    """Every instant of self-certainty that can be the highest, the head's product included.

    Or of its ``backward``, were it part of the loss.
    """
    certainty.check_way(how)
    return _instants(how, head.of(role), gradient=with_gradient, backward=backward)


def certainty_kept(head: Head, *, how: str, role: str) -> tuple[Term, ...]:
    """Terms that self-certainty with gradient leaves alive until the backward."""
    return _kept(how, head.of(role))


def forward_instants(head: Head, *, objective: str, role: str) -> tuple[Instant, ...]:
    """Every instant of the forward that can be the highest, by sizes."""
    return _of_loss(head.of(role), objective, backward=False)


def backward_instants(head: Head, *, objective: str, role: str) -> tuple[Instant, ...]:
    """Every instant of the loss's backward that can be the highest, by sizes."""
    return _of_loss(head.of(role), objective, backward=True)


def logprob_instants(
    head: Head, *, with_entropy: bool, role: str, with_certainty: bool = False
) -> tuple[Instant, ...]:
    """Every instant of a pass without gradient that can be the highest, by sizes.

    ``with_certainty`` is the fused head's alone.
    """
    silent = replace(head, role=role, entropy=with_entropy, certainty=with_certainty)
    return _instants(_program(head, POLICY), silent, gradient=False)


def _instants(way: str, head: Head, **options: bool) -> tuple[Instant, ...]:
    program, sizes = PROGRAMS[way]
    return instants(program, head, sizes(head), **options)


def _kept(way: str, head: Head) -> tuple[Term, ...]:
    """What scoring leaves alive; beside tensors over the vocabulary no small ones are counted."""
    program, sizes = PROGRAMS[way]
    *_, kept = recorded(program, head, again=False, gradient=True)
    small = () if way.startswith(("chunks", "tiles")) else (PER_TOKEN.name, SCALAR.name)
    return tuple(term for term in terms(kept, head, sizes(head)) if term.name not in small)


def _of_loss(head: Head, objective: str, *, backward: bool) -> tuple[Instant, ...]:
    """The instants of a loss, beside the labels that were shifted for scoring."""
    name = "values" if objective == VALUE else _program(head, objective)
    if objective == CROSS_ENTROPY and name == "materialised":
        return _instants("cross entropy", head, backward=backward)
    found = _instants(name, head, backward=backward)
    if objective != CROSS_ENTROPY or not head.way.as_named:
        return found
    labels = SHIFTED_LABELS(head.role, tokens=head.tokens)
    return tuple(instant._replace(terms=(*instant.terms, labels)) for instant in found)


def _program(head: Head, objective: str) -> str:
    """Which program the head's code is."""
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}, not {objective!r}")
    return head.way.program
