"""Bytes at the instants where the loss meets the vocabulary, per way of meeting it.

:func:`loss_forward` and :func:`loss_backward` give the terms of the highest instant of a
micro-batch's loss, beyond hidden states and weights; :func:`forward_instants` and
:func:`backward_instants` every instant that can be it. The others cover the passes without
gradient and what is kept between passes. Terms are new memory: an accumulated gradient that
already exists comes on top.

Valid from a vocabulary of some hundred entries upwards, where no vector of the loss outweighs a
tensor over the vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

from planner.footprint import Instant, Term
from planner.formulas.logits import (
    certainty,
    chunks,
    kept,
    materialised,
    packed,
    responses,
    tiles,
)
from planner.formulas.logits.head import TRL_LOSS, Head, effective_logits, highest
from planner.formulas.logits.kept import (
    document_premise_bytes,
    embedding_backward,
    log_prob_kept,
)
from planner.formulas.logits.materialised import FP32_BYTES
from planner.formulas.logits.pieces import head_gradient, hidden_gradient

__all__ = [
    "Head",
    "backward_instants",
    "cast_gradients",
    "document_premise_bytes",
    "effective_logits",
    "embedding_backward",
    "forward_instants",
    "head_gradients",
    "highest",
    "log_prob_kept",
    "logprob_forward",
    "logprob_instants",
    "loss_backward",
    "loss_forward",
    "scoring_kept",
    "self_certainty_backward",
    "self_certainty_forward",
    "self_certainty_kept",
]

OBJECTIVES = ("sft", "policy", "value")


def loss_forward(head: Head, *, objective: str, role: str) -> tuple[Term, ...]:
    """Terms alive at the highest instant of the forward through head and loss."""
    return highest(*forward_instants(head, objective=objective, role=role)).terms


def loss_backward(head: Head, *, objective: str, role: str) -> tuple[Term, ...]:
    """Terms alive at the highest instant of the loss's backward, gradients included."""
    return highest(*backward_instants(head, objective=objective, role=role)).terms


def logprob_forward(head: Head, *, with_entropy: bool, role: str) -> tuple[Term, ...]:
    """Terms at the highest instant of a pass without gradient over head and log-probabilities.

    verl always computes the entropy for old log-probabilities, TRL 1.15 and later always for its
    policy: say ``with_entropy=True`` for those.
    """
    return highest(*logprob_instants(head, with_entropy=with_entropy, role=role)).terms


def scoring_kept(head: Head, *, role: str) -> tuple[Term, ...]:
    """Terms that scoring with gradient leaves alive until the backward; the plain step's paths."""
    code = runs(head, "policy")
    if code == "tiles":
        return tiles.kept(head, role)
    if code == "materialised":
        return materialised.policy_kept(head, role)
    if code == "chunks":
        return chunks.kept(head, role)
    raise ValueError("logits: what stays after scoring is known for the plain step's paths only")


def head_gradients(head: Head, *, role: str) -> tuple[Term, ...]:
    """What a second use of the head has handed back before the first goes backward."""
    return (hidden_gradient(head, role), *head_gradient(head, role))


def cast_gradients(head: Head, *, role: str) -> tuple[Term, ...]:
    """What the head's backward hands on while its weight's gradient is cast to fp32."""
    wide = head_gradient(head, role, item_bytes=FP32_BYTES, label="head's gradient in fp32")
    return (*head_gradients(head, role=role), *wide)


def self_certainty_forward(
    head: Head, *, how: str, with_gradient: bool, role: str
) -> tuple[Term, ...]:
    """Terms at the highest instant of scoring self-certainty, the head's product included."""
    return highest(*certainty.forward(head, role, how=how, with_gradient=with_gradient)).terms


def self_certainty_kept(head: Head, *, how: str, role: str) -> tuple[Term, ...]:
    """Terms that self-certainty with gradient leaves alive until the backward."""
    return certainty.kept(head, role, how=how)


def self_certainty_backward(head: Head, *, how: str, role: str) -> tuple[Term, ...]:
    """Terms at the highest instant of self-certainty's backward, were it part of the loss."""
    return highest(*certainty.backward(head, role, how=how)).terms


def forward_instants(head: Head, *, objective: str, role: str) -> tuple[Instant, ...]:
    """Every instant of the forward that can be the highest, by sizes."""
    code = runs(head, objective)
    if code == "value":
        return kept.value_forward(head, role)
    if code == "tiles":
        return labelled(tiles.forward(head, role), head, role, objective)
    if code == "chunks":
        return labelled(chunks.forward(head, role), head, role, objective)
    if code == "responses":
        return responses.forward(head, role)
    if code == "packed":
        return packed.forward(head, role)
    if objective == "sft":
        return materialised.sft_forward(head, role)
    return materialised.policy_forward(head, role)


def backward_instants(head: Head, *, objective: str, role: str) -> tuple[Instant, ...]:
    """Every instant of the loss's backward that can be the highest, by sizes."""
    code = runs(head, objective)
    if code == "value":
        return kept.value_backward(head, role)
    if code == "tiles":
        return labelled(tiles.backward(head, role), head, role, objective)
    if code == "chunks":
        return labelled(chunks.backward(head, role), head, role, objective)
    if code == "responses":
        return responses.backward(head, role)
    if code == "packed":
        return packed.backward(head, role)
    if objective == "sft":
        return materialised.sft_backward(head, role)
    return materialised.policy_backward(head, role)


def logprob_instants(head: Head, *, with_entropy: bool, role: str) -> tuple[Instant, ...]:
    """Every instant of a pass without gradient that can be the highest, by sizes."""
    code = runs(head, "policy")
    if code == "tiles":
        return tiles.forward(head, role, entropy=with_entropy)
    if code == "chunks":
        return chunks.forward(head, role)
    if code == "responses":
        return responses.without_gradient(head, role)
    if code == "packed":
        return packed.without_gradient(head, role, with_entropy=with_entropy)
    return materialised.without_gradient(head, role, with_entropy=with_entropy)


def labelled(
    instants: tuple[Instant, ...], head: Head, role: str, objective: str
) -> tuple[Instant, ...]:
    """The instants beside the labels that the plain step shifted for its scoring."""
    if objective != "sft" or head.framework != "plain":
        return instants
    labels = kept.SHIFTED_LABELS(role, tokens=head.tokens)
    return tuple(replace(instant, terms=(*instant.terms, labels)) for instant in instants)


def runs(head: Head, objective: str) -> str:
    """Which code meets the vocabulary; ``ValueError`` where it was never modelled."""
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}, not {objective!r}")
    if objective == "value":
        return "value"
    if head.logits == "fused":
        return "tiles"
    if head.framework == "trl":
        if objective == "sft":
            raise ValueError(
                f"framework_version {head.framework_version} of trl runs SFT in chunks of 256 "
                "tokens that are not modelled here; use 1.15.0 or later"
            )
        if head.entropy and TRL_LOSS[head.framework_version] == "loop":
            raise ValueError(
                f"an entropy bonus in trl {head.framework_version} is not modelled; "
                "use framework_version 1.14.0 or later, or set entropy to false"
            )
        return "responses"
    if head.logits == "chunked":
        return "chunks"
    return "materialised" if head.framework == "plain" else "packed"
