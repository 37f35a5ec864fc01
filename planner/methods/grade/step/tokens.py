"""Soft tokens: drawn by the Gumbel-softmax, read as mixtures of embeddings.

A mixture is over the vocabulary or over the k best entries; it is a product with the embedding's
table, or with k rows of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from planner.methods.grade.fields import GradeFields
from planner.steps.stage import Stage

Noise = Callable[[Tensor, Tensor | None], Tensor]
"""Gumbel noise for scores [rows, entries]; the ids of the entries where they are not all."""

TAU = 1.0
"""The temperature of the Gumbel-softmax."""


@dataclass(frozen=True, slots=True)
class SoftToken:
    """A mixture of tokens for every row.

    ``weights`` [rows, entries] sum to 1. ``ids`` [rows, k] are the k best entries, None without
    top-k. The weights are theirs, unless they were ``scattered`` over the vocabulary.
    """

    weights: Tensor
    ids: Tensor | None
    scattered: bool = False

    @property
    def listed(self) -> Tensor | None:
        """Whose weights these are; None where there is one for every entry."""
        return None if self.scattered else self.ids

    def without_gradient(self) -> SoftToken:
        """The same mixture in the same memory, for tokens that a dry run leaves out."""
        return replace(self, weights=self.weights.detach())

    def few(self) -> Tensor:
        """Weights [rows, k] of the k best entries."""
        if self.ids is None or not self.scattered:
            return self.weights
        return self.weights.gather(-1, self.ids)

    def hard_ids(self) -> Tensor:
        """Ids [rows, 1] of the heaviest entry of every mixture."""
        best = self.weights.argmax(-1, keepdim=True)
        return best if self.listed is None else self.listed.gather(-1, best)


def gumbel_noise(generator: torch.Generator | None = None) -> Noise:
    """Standard Gumbel noise, -log of exponential draws, made in one tensor."""

    def draw(scores: Tensor, ids: Tensor | None) -> Tensor:
        return torch.empty_like(scores).exponential_(generator=generator).log_().neg_()

    return draw


def soft_token(logits: Tensor, options: GradeFields, noise: Noise) -> SoftToken:
    """The next token of every row, from fp32 logits [rows, vocabulary].

    With ``grade_top_k`` the softmax sees the k best entries alone; ``grade_dense_scatter`` writes
    their weights back into a row of the vocabulary's length.
    """
    if not options.grade_top_k:
        return SoftToken(_relaxed(logits, None, options, noise), None)
    best, ids = logits.topk(options.grade_top_k, dim=-1)
    weights = _relaxed(best, ids, options, noise)
    if not options.grade_dense_scatter:
        return SoftToken(weights, ids)
    row = torch.zeros_like(logits).scatter(-1, ids, weights)
    return SoftToken(row, ids, scattered=True)


def _relaxed(scores: Tensor, ids: Tensor | None, options: GradeFields, noise: Noise) -> Tensor:
    weights = F.softmax((scores + noise(scores, ids)) / TAU, dim=-1)
    if options.grade_estimator == "soft":
        return weights
    # The value is one-hot, the gradient that of the soft weights.
    hard = torch.zeros_like(weights).scatter_(-1, weights.argmax(-1, keepdim=True), 1.0)
    return (hard - weights).detach() + weights


def mixed(embedding: Any, token: SoftToken) -> Tensor:
    """Embedding [rows, 1, hidden] of one soft token, from the policy's table."""
    table = embedding.weight
    weights = token.weights.to(table.dtype)
    if token.listed is None:
        return _scaled(embedding, (weights @ table).unsqueeze(1))
    return _scaled(embedding, weights.unsqueeze(1) @ F.embedding(token.listed, table))


def dense(stage: Stage, embedding: Any, tokens: list[SoftToken]) -> Tensor:
    """Embeddings [rows, tokens, hidden], by a product over the whole vocabulary.

    Top-k weights without a dense scatter become rows of the vocabulary's length here.
    """
    table = embedding.weight
    weights = torch.stack([token.weights for token in tokens], dim=1).to(table.dtype)
    if tokens[0].listed is not None:
        ids = _ids(tokens)
        whole = weights.new_zeros((*weights.shape[:2], table.shape[0]))
        weights = whole.scatter_(-1, ids, weights)
        del whole
    return _scaled(embedding, weights @ table)


def sparse(stage: Stage, embedding: Any, tokens: list[SoftToken]) -> Tensor:
    """Embeddings [rows, tokens, hidden], by gathering the k entries' rows of the table.

    Weights that were scattered to the whole vocabulary are gathered from there again.
    """
    table, ids = embedding.weight, _ids(tokens)
    few = [token.few() for token in tokens]
    if tokens[0].scattered:
        for place in range(len(few)):
            stage.turning(few[place], place)
    weights = torch.stack(few, dim=1)
    del few
    weights = weights.to(table.dtype)
    return _scaled(embedding, (weights.unsqueeze(-2) @ F.embedding(ids, table)).squeeze(-2))


def _ids(tokens: list[SoftToken]) -> Tensor:
    return torch.stack([token.ids for token in tokens if token.ids is not None], dim=1)


def _scaled(embedding: Any, mixture: Tensor) -> Tensor:
    """Gemma's embedding multiplies what it looks up."""
    scale = getattr(embedding, "embed_scale", None)
    return mixture if scale is None else mixture * scale.to(mixture.dtype)
