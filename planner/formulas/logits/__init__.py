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
from planner.formulas.logits.head import HEAD_BACKWARD, INSIDE_MODEL, RETURNED, Head
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
    "HEAD_BACKWARD",
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

Way = tuple[Program, Callable[[Head], Mapping[str, Num]]]
"""A way of meeting the vocabulary: its program, and the sizes of that program's pieces."""

WAYS: Mapping[str, Way] = {
    "chunks": (chunks.scores, chunks.sizes),
    "materialised": (materialised.scores, lambda _: {}),
    "packed": (packed.scores, lambda _: {}),
    "responses": (responses.scores, responses.sizes),
    "tiles": (tiles.scores, tiles.sizes),
    "values": (values.loss, lambda _: {"vocab": 1}),
    "cross entropy": (cross_entropy.loss, lambda head: {"again": head.rows > 1}),
    **certainty.WAYS,
}
"""Ways by the name that a framework's loss code has them under, and self-certainty's."""


def product(head: Head) -> tuple[Term, ...]:
    """The head's whole product alone, as it is being made."""
    return (narrow(LOGITS, head),)


def scoring_kept(head: Head, *, role: str) -> tuple[Term, ...]:
    """Terms that scoring with gradient leaves alive until the backward; the plain step's paths."""
    name = _way(head, POLICY)
    if name not in ("chunks", "materialised", "tiles"):
        raise ValueError(f"logits: what stays after {name} have scored was not read")
    return _kept(name, head.of(role))


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
    return _instants(_way(head, POLICY), silent, gradient=False)


def _instants(way: str, head: Head, **options: bool) -> tuple[Instant, ...]:
    program, sizes = WAYS[way]
    return instants(program, head, sizes(head), **options)


def _kept(way: str, head: Head) -> tuple[Term, ...]:
    """What scoring leaves alive; beside tensors over the vocabulary no small ones are counted."""
    program, sizes = WAYS[way]
    *_, kept = recorded(program, head, again=False, gradient=True)
    small = () if way in ("chunks", "tiles") else (PER_TOKEN.name, SCALAR.name)
    return tuple(term for term in terms(kept, head, sizes(head)) if term.name not in small)


def _of_loss(head: Head, objective: str, *, backward: bool) -> tuple[Instant, ...]:
    """The instants of a loss, beside the labels that were shifted for scoring."""
    way = "values" if objective == VALUE else _way(head, objective)
    if objective != CROSS_ENTROPY or not (way == "materialised" or head.loss.copies_labels):
        return _instants(way, head, backward=backward)
    if way == "materialised":
        return _instants("cross entropy", head, backward=backward)
    labels = SHIFTED_LABELS(head.role, tokens=head.tokens)
    found = _instants(way, head, backward=backward)
    return tuple(instant._replace(terms=(*instant.terms, labels)) for instant in found)


def _way(head: Head, objective: str) -> str:
    """Which way the head's code goes; ``ValueError`` where it was never modelled."""
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}, not {objective!r}")
    loss = head.loss
    if objective == CROSS_ENTROPY and loss.no_cross_entropy:
        raise ValueError(loss.no_cross_entropy)
    if head.entropy and loss.no_entropy:
        raise ValueError(loss.no_entropy)
    return loss.formulas[head.logits]
