"""One soft token per row: the Gumbel-softmax over the vocabulary or over the k best entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from planner.methods.grade.options import GradeOptions

Noise = Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]
"""Gumbel noise for scores [rows, entries]; the ids of the entries where they are not all."""


@dataclass(frozen=True, slots=True)
class SoftToken:
    """A mixture of tokens for every row.

    ``weights`` [rows, entries] sum to 1. ``ids`` [rows, k] are the k best entries, None without
    top-k. The weights are theirs, unless they were ``scattered`` over the vocabulary.
    """

    weights: torch.Tensor
    ids: torch.Tensor | None
    scattered: bool = False

    @property
    def listed(self) -> torch.Tensor | None:
        """Whose weights these are; None where there is one for every entry."""
        return None if self.scattered else self.ids

    def without_gradient(self) -> SoftToken:
        """The same mixture in the same memory, for tokens that a dry run leaves out."""
        return replace(self, weights=self.weights.detach())


def gumbel_noise(generator: torch.Generator | None = None) -> Noise:
    """Standard Gumbel noise, -log of exponential draws, made in one tensor."""

    def draw(scores: torch.Tensor, ids: torch.Tensor | None) -> torch.Tensor:
        return torch.empty_like(scores).exponential_(generator=generator).log_().neg_()

    return draw


def soft_token(logits: torch.Tensor, options: GradeOptions, noise: Noise) -> SoftToken:
    """The next token of every row, from fp32 logits [rows, vocabulary].

    With ``top_k`` the softmax sees the k best entries alone; ``dense_scatter`` writes their
    weights back into a row of the vocabulary's length.
    """
    if not options.top_k:
        return SoftToken(_relaxed(logits, None, options, noise), None)
    best, ids = logits.topk(options.top_k, dim=-1)
    weights = _relaxed(best, ids, options, noise)
    if not options.dense_scatter:
        return SoftToken(weights, ids)
    row = torch.zeros_like(logits).scatter(-1, ids, weights)
    return SoftToken(row, ids, scattered=True)


def _relaxed(
    scores: torch.Tensor, ids: torch.Tensor | None, options: GradeOptions, noise: Noise
) -> torch.Tensor:
    weights = F.softmax((scores + noise(scores, ids)) / options.tau, dim=-1)
    if options.estimator == "soft":
        return weights
    # The value is one-hot, the gradient that of the soft weights.
    hard = torch.zeros_like(weights).scatter_(-1, weights.argmax(-1, keepdim=True), 1.0)
    return (hard - weights).detach() + weights


def hard_ids(token: SoftToken) -> torch.Tensor:
    """Ids [rows, 1] of the heaviest entry of every mixture."""
    best = token.weights.argmax(-1, keepdim=True)
    return best if token.listed is None else token.listed.gather(-1, best)


def captured_mass(logits: torch.Tensor, top_k: int) -> torch.Tensor:
    """Share [rows] of the softmax's probability that the ``top_k`` best entries hold."""
    return F.softmax(logits.float(), dim=-1).topk(top_k, dim=-1).values.sum(-1)
