"""Bytes at the instants where the loss meets the vocabulary, per way of meeting it.

:func:`forward_instants` and :func:`backward_instants` give every instant that can be the
highest of a micro-batch's loss, beyond hidden states and weights. The others cover the passes
without gradient and what is kept between passes. Terms are new memory: an accumulated gradient that
already exists comes on top.

Valid from a vocabulary of some hundred entries upwards, where no vector of the loss outweighs a
tensor over the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

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
from planner.formulas.logits.head import INSIDE_MODEL, Head, highest
from planner.formulas.logits.kept import (
    SHIFTED_LABELS,
    embedding_backward,
    log_prob_kept,
)
from planner.formulas.logits.pieces import (
    FP32_BYTES,
    LOGITS,
    LOGITS_GRADIENT,
    head_gradient,
    hidden_gradient,
    narrow,
    squashed,
)
from planner.term import Instant, Term
from planner.values.loss_code import CROSS_ENTROPY, OBJECTIVES, POLICY, VALUE

__all__ = [
    "INSIDE_MODEL",
    "Head",
    "backward_instants",
    "cast_gradients",
    "embedding_backward",
    "forward_instants",
    "head_gradients",
    "kept_of_output",
    "log_prob_kept",
    "logprob_instants",
    "product",
    "scoring_kept",
    "self_certainty_backward",
    "self_certainty_forward",
    "self_certainty_kept",
]


def product(head: Head) -> tuple[Term, ...]:
    """The head's whole product alone, as it is being made."""
    return (narrow(LOGITS, head),)


class Way(Protocol):
    """One way of meeting the vocabulary: a module of this package."""

    def forward(self, head: Head) -> tuple[Instant, ...]:
        """Every instant of the forward that can be the highest, by sizes."""

    def backward(self, head: Head) -> tuple[Instant, ...]:
        """The same of the loss's backward."""


class Scoring(Way, Protocol):
    """A way that also scores without gradient."""

    def without_gradient(
        self, head: Head, *, with_entropy: bool
    ) -> tuple[Instant, ...]:
        """The same of a pass without gradient."""


SCORING: Mapping[str, Scoring] = {
    "chunks": chunks,
    "materialised": materialised,
    "packed": packed,
    "responses": responses,
    "tiles": tiles,
}
"""Ways by the name that a framework's loss code has them under."""

KEPT = {"chunks": chunks.kept, "materialised": materialised.kept, "tiles": tiles.kept}
"""What scoring with gradient keeps, where it has been read."""


def scoring_kept(head: Head, *, role: str) -> tuple[Term, ...]:
    """Terms that scoring with gradient leaves alive until the backward; the plain step's paths."""
    way = _way(head, POLICY)
    if way not in KEPT:
        raise ValueError(f"logits: what stays after {way} have scored was not read")
    return KEPT[way](head.of(role))


def kept_of_output(head: Head) -> tuple[Term, ...]:
    """What a loss outside the model hands back to it, beside what a soft cap has kept."""
    return (narrow(LOGITS_GRADIENT, head), *squashed(head))


def head_gradients(head: Head, *, role: str) -> tuple[Term, ...]:
    """What a second use of the head has handed back before the first goes backward."""
    head = head.of(role)
    return (hidden_gradient(head), *head_gradient(head))


def cast_gradients(head: Head, *, role: str) -> tuple[Term, ...]:
    """What the head's backward hands on while its weight's gradient is cast to fp32."""
    wide = head_gradient(head.of(role), item_bytes=FP32_BYTES, label="head's gradient in fp32")
    return (*head_gradients(head, role=role), *wide)


def self_certainty_forward(
    head: Head, *, how: str, with_gradient: bool, role: str
) -> tuple[Term, ...]:
    """Terms at the highest instant of scoring self-certainty, the head's product included."""
    return highest(*certainty.forward(head.of(role), how=how, with_gradient=with_gradient)).terms


def self_certainty_kept(head: Head, *, how: str, role: str) -> tuple[Term, ...]:
    """Terms that self-certainty with gradient leaves alive until the backward."""
    return certainty.kept(head.of(role), how=how)


def self_certainty_backward(head: Head, *, how: str, role: str) -> tuple[Term, ...]:
    """Terms at the highest instant of self-certainty's backward, were it part of the loss."""
    return highest(*certainty.backward(head.of(role), how=how)).terms


def forward_instants(head: Head, *, objective: str, role: str) -> tuple[Instant, ...]:
    """Every instant of the forward that can be the highest, by sizes."""
    way, head = _loss(head, objective), head.of(role)
    return _labelled(way, way.forward(head), head, objective)


def backward_instants(head: Head, *, objective: str, role: str) -> tuple[Instant, ...]:
    """Every instant of the loss's backward that can be the highest, by sizes."""
    way, head = _loss(head, objective), head.of(role)
    return _labelled(way, way.backward(head), head, objective)


def logprob_instants(
    head: Head, *, with_entropy: bool, role: str, with_certainty: bool = False
) -> tuple[Instant, ...]:
    """Every instant of a pass without gradient that can be the highest, by sizes.

    ``with_certainty`` is the fused head's alone.
    """
    way = SCORING[_way(head, POLICY)]
    if with_certainty:
        found = head.of(role)
        return tiles.without_gradient(found, with_entropy=with_entropy, with_certainty=True)
    return way.without_gradient(head.of(role), with_entropy=with_entropy)


def _labelled(
    way: Way, instants: tuple[Instant, ...], head: Head, objective: str
) -> tuple[Instant, ...]:
    """The instants beside the labels that were shifted for scoring."""
    copied = objective == CROSS_ENTROPY and head.loss.copies_labels and way is not cross_entropy
    if not copied:
        return instants
    labels = SHIFTED_LABELS(head.role, tokens=head.tokens)
    return tuple(instant._replace(terms=(*instant.terms, labels)) for instant in instants)


def _loss(head: Head, objective: str) -> Way:
    """The code that makes the loss of this objective."""
    if objective == VALUE:
        return values
    way = _way(head, objective)
    if way == "materialised" and objective == CROSS_ENTROPY:
        return cross_entropy
    return SCORING[way]


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
